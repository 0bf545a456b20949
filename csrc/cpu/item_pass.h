#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "cpu/block_parts.h"
#include "cpu/links.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces along an axis whose positions are whole items: rows, or planes. They
// are pushed in order, and each output is emitted once its last has been.
//
// Small windows are joined item by item. For large ones, items come in blocks:
// each is replaced by what it makes together with those after it in its block
// (once that is complete) while `prefix_` collects those before, so that a
// window is the rest of one block, perhaps whole blocks, and the beginning of
// another, however large it is. Which of these no window has is not made.
template <typename Op>
class ItemPass {
 public:
  using Cells = typename Op::Cells;

  // `tap_unit` taps of the whole window pass from one item to the next.
  ItemPass(
      const AxisLinks& links,
      Range to,
      int64_t tap_unit,
      int64_t item,
      Scratch& scratch)
      : links_(links),
        to_(to),
        from_(linked(links, to)),
        made_(links, to),
        tap_unit_(tap_unit),
        item_(item),
        pitch_((item + 2 * kLanes - 1) / kLanes * kLanes),
        slots_(std::max(links.span, links.blocks.longest())),
        items_(Op::take(scratch, (slots_ + 1) * pitch_)),
        prefix_(Op::take(scratch, links.block > 0 ? item : 0)),
        parts_(links.parts) {
    restart();
  }

  void restart() {
    next_ = to_.begin;
  }

  // The items to push.
  Range from() const {
    return from_;
  }

  // Whether no output is made of item i, which is not to be pushed then.
  bool skips(int64_t i) const {
    bool are_known = links_.block == 0 && links_.in_order && !links_.some_empty;
    return are_known && next_ < to_.end && i < links_.of[next_].first;
  }

  // Where to put item i, with how much added to its taps. Those that no rests
  // are made of take turns in one place, and leave the others in the caches.
  Cells slot(int64_t i) const {
    bool is_kept = links_.block == 0 || made_.has_rests(links_.blocks.at(i));
    return is_kept ? kept(i) : items_ + slots_ * pitch_;
  }
  int64_t tap_base(int64_t i) const {
    return links_.block > 0 ? i * tap_unit_ : 0;
  }

  // Calls emit(o, window) for each output that is complete with item i, where
  // window(j) is the L cells from j on of the output.
  template <typename Emit>
  void push(int64_t i, const Emit& emit) {
    if (links_.block > 0) {
      collect(i);
    }
    for (; next_ < to_.end && links_.last(next_) <= i; ++next_) {
      gather(i);
      with_count<Op::kRare>(count_, [&](auto count) MLX_POOLING_LAMBDA {
        const auto parts = held(count);
        emit(next_, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          return window<L>(parts, count, j);
        });
      });
    }
  }

 private:
  static constexpr int kLanes = Op::kLanes;

  Cells kept(int64_t i) const {
    return items_ + i % slots_ * pitch_;
  }

  struct Part {
    Cells cells;
    int64_t taps; // to add
  };

  // The parts where no store to memory can change them, if they are few.
  template <int64_t N>
  MLX_POOLING_INLINE std::array<Part, N>
  held(std::integral_constant<int64_t, N>) const {
    std::array<Part, N> parts;
    std::copy_n(parts_.begin(), N, parts.begin());
    return parts;
  }
  MLX_POOLING_INLINE const Part* held(int64_t) const {
    return parts_.data();
  }

  template <int L, typename Parts>
  MLX_POOLING_INLINE static typename Op::template Cell<L>
  window(const Parts& parts, int64_t count, int64_t j) {
    auto part = [&](int64_t k) MLX_POOLING_LAMBDA {
      return Op::template moved<L>(
          Op::template read<L>(parts[k].cells + j), parts[k].taps);
    };
    if (count == 0) {
      return Op::template nothing<L>();
    }
    auto cell = part(0);
    for (int64_t k = 1; k < count; ++k) {
      cell = Op::template joined<L>(cell, part(k));
    }
    return cell;
  }

  // What makes up output next_.
  void gather(int64_t i) {
    const Link link = links_.of[next_];
    count_ = 0;
    if (links_.block == 0) {
      for (int64_t k = 0; k < link.count; ++k) {
        auto tap = link.tap + k * links_.tap_step;
        parts_[count_++] = {
            kept(link.first + k * links_.step), tap * tap_unit_};
      }
    } else if (link.count > 0) {
      const auto last = links_.blocks.at(i);
      auto taps = (link.tap - link.first) * tap_unit_;
      auto rest = link.first;
      for (; rest < last.begin; rest = links_.blocks.at(rest).end) {
        parts_[count_++] = {kept(rest), taps};
      }
      bool is_prefix = rest == last.begin && rest > 0;
      parts_[count_++] = {is_prefix ? prefix_ : kept(rest), taps};
    }
  }

  void collect(int64_t i) {
    const auto block = links_.blocks.at(i);
    if (made_.has_prefixes(block)) {
      auto item = slot(i);
      if (i == block.begin) {
        join(item, nullptr, prefix_);
      } else {
        join(prefix_, &item, prefix_);
      }
    }
    if (i + 1 == block.end && made_.has_rests(block)) {
      const auto begin = std::max(from_.begin, block.begin);
      for (auto k = i - 1; k >= begin; --k) {
        auto rest = kept(k + 1);
        join(kept(k), &rest, kept(k));
      }
    }
  }

  void join(Cells a, const Cells* b, Cells to) const {
    join_cells<Op>(a, b, 0, item_, to);
  }

  const AxisLinks& links_;
  Range to_;
  Range from_;
  BlockParts made_;
  int64_t tap_unit_;
  int64_t item_;
  int64_t pitch_; // apart enough for vectors that reach past the last element
  int64_t slots_;
  Cells items_;
  Cells prefix_;
  std::vector<Part> parts_;
  int64_t count_;
  int64_t next_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
