#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "cpu/block_parts.h"
#include "cpu/ends.h"
#include "cpu/links.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces large windows along the innermost axis, a row at a time, by blocks as
// ItemPass does, with as many channels at a time as stay in registers.
template <RowEnds Ends>
class RowBlocks {
 public:
  using Op = typename Ends::Op;
  static constexpr int kLanes = Op::kLanes;
  static constexpr int kMostVectors = 4;
  // Channels that are gone through together, if there are so many.
  static constexpr int64_t kStrip = kMostVectors * kLanes;

  static bool suits(const AxisLinks& links, int64_t channels) {
    return links.in_blocks() && channels >= kLanes &&
        !links.in_dense_rows(channels);
  }

  // For outputs `to` and `channels` of positions that have `pitch`, which are
  // visited where they lie if `in_place`.
  RowBlocks(
      const AxisLinks& links,
      Range to,
      Range channels,
      int64_t pitch,
      bool in_place,
      Scratch& scratch)
      : links_(links),
        to_(to),
        from_(linked(links, to)),
        made_(links, to),
        channels_(channels),
        pitch_(pitch),
        in_place_(in_place),
        slots_(
            std::bit_ceil(
                static_cast<uint64_t>(links.span + links.blocks.longest()))),
        rests_(Op::take(scratch, slots_ * kStrip)),
        taps_(scratch.take<Value>(slots_ * kStrip)),
        uncut_(uncut()) {
    look_up(to.begin, uncut_.begin);
    look_up(uncut_.end, to.end);
  }

  // Calls emit(o, c, cells) for each output and strip of channels, of which c
  // counts in the block, and asks for elements `ahead` positions on, to come to
  // that level of cache.
  template <int kLevel, typename Emit>
  void
  reduce(Ends& ends, const LinkedRow& row, int64_t ahead, Emit emit) const {
    for_each_block<typename Op::Lane, kLanes, kMostVectors>(
        channels_.size(), [&]<int U>(Vectors<U>, int64_t c) {
          reduce_strip<U, kLevel>(ends, row, ahead, c, emit);
        });
  }

 private:
  using Value = typename Op::Value;
  using Cell = typename Op::template Cell<kLanes>;

  template <int U>
  struct Window {
    MLX_POOLING_INLINE void join(const Window& after) {
      for (int u = 0; u < U; ++u) {
        cells[u] = Op::template joined<kLanes>(cells[u], after.cells[u]);
      }
    }

    MLX_POOLING_INLINE const std::array<Cell, U>& moved(int64_t taps) {
      for (auto& cell : cells) {
        cell = Op::template moved<kLanes>(cell, taps);
      }
      return cells;
    }

    std::array<Cell, U> cells;
  };

  // A window that is not one of uncut(), looked up once, not in every row.
  struct Cut {
    int64_t first;
    int64_t last;
    int64_t next_block; // after that of the first
    int64_t taps;       // to add
    bool is_empty;
  };

  // Outputs whose windows nothing cuts off, each with a last position of its
  // own: not the row's, where windows may end that are cut off.
  Range uncut() const {
    auto [begin, end] = to_;
    if (!links_.origin() || links_.block < links_.kernel) {
      return {end, end};
    }
    auto is_cut = [&](int64_t o) { return links_.of[o].count < links_.kernel; };
    while (begin < end && is_cut(begin)) {
      ++begin;
    }
    while (begin < end && is_cut(end - 1)) {
      --end;
    }
    return {begin, std::max(begin, end - 1)};
  }

  Range last_of_uncut() const {
    auto last = links_.origin().value_or(0) + links_.kernel - 1;
    return {uncut_.begin + last, uncut_.end + last};
  }

  void look_up(int64_t begin, int64_t end) {
    for (auto o = begin; o < end; ++o) {
      const Link link = links_.of[o];
      bool is_empty = link.count == 0;
      cuts_.push_back(
          {link.first, links_.last(o),
           is_empty ? link.first : links_.blocks.at(link.first).end,
           link.tap - link.first, is_empty});
    }
  }

  // The same channels of a block's positions.
  template <int U, int kLevel>
  struct Strip {
    MLX_POOLING_INLINE Window<U> tap(int64_t i) const {
      Window<U> window;
      for (int u = 0; u < U; ++u) {
        window.cells[u] = Op::template tap<kLanes>(at(i) + u * kLanes, i);
      }
      return window;
    }

    // Asks for some of the vectors that lie `ahead`. Each pass over a position
    // asks for half: all at a time come later than they do one by one.
    template <int kBegin, int kEnd>
    MLX_POOLING_INLINE void ask_ahead(int64_t i) const {
      for (int u = kBegin; u < kEnd; ++u) {
        fetch_ahead<kLanes, kLevel>(at(i) + u * kLanes, ahead);
      }
    }

    MLX_POOLING_INLINE const Value* at(int64_t i) const {
      return values + (i - begin) * pitch;
    }

    const Value* values; // from position `begin` on
    int64_t begin;
    int64_t pitch;
    uintptr_t ahead;
  };

  // Where it lies, if that is to be and there are values, or as it is read.
  template <int U, int kLevel>
  MLX_POOLING_INLINE Strip<U, kLevel> strip_of(
      Range block, Ends& ends, const LinkedRow& row, uintptr_t ahead, int64_t c)
      const {
    if (auto* values = in_place_ ? ends.values() : nullptr) {
      auto at = (row.spatial + block.begin) * pitch_ + channels_.begin + c;
      return {values + at, block.begin, pitch_, ahead};
    }
    constexpr int64_t kPitch = U * kLanes;
    for (auto i = block.begin; i < block.end; ++i) {
      auto common = ends.reading({row.spatial, i, row.d, row.h}, i);
      auto from = (row.spatial + i) * pitch_ + channels_.begin + c;
      auto* to = taps_ + (i - block.begin) * kPitch;
      for (int u = 0; u < U; ++u, from += kLanes, to += kLanes) {
        ends.template fetch_cell_ahead<kLanes, kLevel>(from, ahead);
        store<kLanes>(to, ends.template read_cell<kLanes>(from, common).value);
      }
    }
    return {taps_, block.begin, kPitch, 0};
  }

  // What a block's positions make together with those after them.
  template <int U>
  struct Rests {
    MLX_POOLING_INLINE void keep(const Window<U>& window, int64_t i) const {
      for (int u = 0; u < U; ++u) {
        Op::template write<kLanes>(at(i) + u * kLanes, window.cells[u]);
      }
    }

    MLX_POOLING_INLINE Window<U> operator[](int64_t i) const {
      Window<U> window;
      for (int u = 0; u < U; ++u) {
        window.cells[u] = Op::template read<kLanes>(at(i) + u * kLanes);
      }
      return window;
    }

    MLX_POOLING_INLINE typename Op::Cells at(int64_t i) const {
      return cells + (i & mask) * (U * kLanes);
    }

    typename Op::Cells cells;
    int64_t mask;
  };

  template <int U, int kLevel, typename Emit>
  MLX_POOLING_INLINE void reduce_strip(
      Ends& ends,
      const LinkedRow& row,
      int64_t ahead,
      int64_t c,
      const Emit emit) const {
    constexpr int kHalf = U / 2;
    const Rests<U> rests{rests_, slots_ - 1};
    const auto length = links_.kernel;
    const auto last_of_uncut = this->last_of_uncut();
    const auto tap_base = row.tap;
    NanWatch<Value, kLanes, U> watch;
    auto next = to_.begin;
    auto cut = cuts_.begin();
    for (int64_t begin = from_.begin, end; begin < from_.end; begin = end) {
      const auto block = links_.blocks.at(begin);
      end = std::min(block.end, from_.end);
      const bool has_rests = made_.has_rests(block);
      const auto strip = strip_of<U, kLevel>(
          {begin, end}, ends, row,
          ahead * pitch_ * sizeof(typename Ends::Stored), c);
      auto first_tap = [&](int64_t i) MLX_POOLING_LAMBDA {
        strip.template ask_ahead<0, kHalf>(i);
        auto window = strip.tap(i);
        if constexpr (Op::kWatched) {
          for (int u = 0; u < U; ++u) {
            watch.see(window.cells[u].value, u);
          }
        }
        return window;
      };
      auto last_tap = [&](int64_t i) MLX_POOLING_LAMBDA {
        strip.template ask_ahead<kHalf, U>(i);
        return has_rests ? strip.tap(i) : first_tap(i);
      };
      Window<U> prefix;
      if (has_rests) {
        prefix = make_rests({begin, end}, rests, first_tap);
      }
      auto start = end - 1; // or the first that a window ends with
      if (made_.has_prefixes(block)) {
        prefix = last_tap(begin);
        start = begin;
      } else {
        for (auto i = begin; i < end; ++i) {
          strip.template ask_ahead<kHalf, U>(i);
        }
      }
      // Windows of a rest of the block before and a prefix of this one.
      const Range plain{
          std::max(start + 1, last_of_uncut.begin),
          std::min({end, last_of_uncut.end, block.begin + length - 1})};
      for (auto i = start; i < end; ++i) {
        if (plain.contains(i)) {
          for (; i < plain.end; ++i) {
            prefix.join(last_tap(i));
            auto first = i - length + 1;
            auto window = rests[first];
            window.join(prefix);
            emit(next++, c, window.moved(tap_base - first));
          }
          if (i == end) {
            break;
          }
        }
        if (i > start) {
          prefix.join(last_tap(i));
        }
        if (last_of_uncut.contains(i)) {
          auto first = i - length + 1;
          auto next_block = first < block.begin ? block.begin : block.end;
          auto window =
              window_of(first, next_block, rests, block.begin, prefix);
          emit(next++, c, window.moved(tap_base - first));
        } else {
          for (; cut != cuts_.end() && cut->last <= i; ++cut) {
            auto window = cut->is_empty
                ? nothing<U>()
                : window_of(
                      cut->first, cut->next_block, rests, block.begin, prefix);
            emit(next++, c, window.moved(tap_base + cut->taps));
          }
        }
      }
    }
    if constexpr (Op::kWatched) {
      ends.see_nan(watch.saw_nan());
    }
  }

  // Gives that of the first position, too.
  template <int U, typename Tap>
  MLX_POOLING_INLINE static Window<U>
  make_rests(Range block, const Rests<U>& rests, const Tap& tap) {
    auto window = tap(block.end - 1);
    rests.keep(window, block.end - 1);
    for (auto i = block.end - 2; i >= block.begin; --i) {
      auto before = tap(i);
      before.join(window);
      window = before;
      rests.keep(window, i);
    }
    return window;
  }

  template <int U>
  MLX_POOLING_INLINE static Window<U> nothing() {
    Window<U> window;
    window.cells.fill(Op::template nothing<kLanes>());
    return window;
  }

  // From position `first` on, behind whose block `whole` is: of the rests of
  // blocks before this one, and the prefix of this one.
  template <int U>
  MLX_POOLING_INLINE Window<U> window_of(
      int64_t first,
      int64_t whole,
      const Rests<U>& rests,
      int64_t block,
      const Window<U>& prefix) const {
    if (first == block) {
      return prefix;
    }
    auto window = rests[first];
    for (; whole < block; whole = links_.blocks.at(whole).end) {
      window.join(rests[whole]);
    }
    if (whole == block) {
      window.join(prefix);
    }
    return window;
  }

  const AxisLinks& links_;
  Range to_;
  Range from_;
  BlockParts made_;
  Range channels_;
  int64_t pitch_;
  bool in_place_;
  int64_t slots_;
  typename Op::Cells rests_;
  Value* taps_; // of a block, if they are not in place
  Range uncut_;
  std::vector<Cut> cuts_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
