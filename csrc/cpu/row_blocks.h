#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "cpu/links.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces large windows along the innermost axis, a row at a time, by blocks as
// ItemPass does, with as many channels at a time as stay in registers. Elements
// are read where they lie: `Ends` has what ColumnByColumn asks for, and
//
//   reads_by_position(): whether to read each element only once
//   fetch_cell_ahead(at, ahead): asks for what lies so many bytes from there
//   see_nan(is_there): where Op is watched, whether a NaN was read
template <typename Ends>
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

  // For outputs `to` and `channels` of positions that have `pitch`.
  RowBlocks(
      const AxisLinks& links,
      Range to,
      Range channels,
      int64_t pitch,
      Scratch& scratch)
      : links_(links),
        to_(to),
        from_(linked(links, to)),
        made_(links, to),
        channels_(channels),
        pitch_(pitch),
        slots_(std::bit_ceil(static_cast<uint64_t>(links.span + links.block))),
        rests_(Op::take(scratch, slots_ * kStrip)),
        taps_(scratch.take<Value>(slots_ * kStrip)),
        uncut_(uncut()) {
    look_up(to.begin, uncut_.begin);
    look_up(uncut_.end, to.end);
  }

  // Calls emit(o, c, cells) for each output and strip of channels, of which c
  // counts in the block, and asks for elements `ahead` positions on.
  template <typename Emit>
  void
  reduce(Ends& ends, const LinkedRow& row, int64_t ahead, Emit emit) const {
    for_each_block<typename Op::Lane, kLanes, kMostVectors>(
        channels_.size(), [&]<int U>(Vectors<U>, int64_t c) {
          reduce_strip<U>(ends, row, ahead, c, emit);
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
      cuts_.push_back(
          {link.first, links_.last(o), links_.block_at(link.first).end,
           link.tap - link.first, link.count == 0});
    }
  }

  // The same channels of a row's positions.
  template <int U>
  class Strip {
   public:
    Strip(
        const RowBlocks& blocks,
        const Ends& ends,
        const LinkedRow& row,
        int64_t ahead,
        int64_t c)
        : ends_(ends),
          row_(row),
          pitch_(blocks.pitch_),
          first_(row.spatial * pitch_ + blocks.channels_.begin + c),
          ahead_(ahead * pitch_ * sizeof(typename Ends::Stored)),
          mask_(blocks.slots_ - 1),
          rests_(blocks.rests_),
          taps_(blocks.taps_),
          keeps_taps_(ends.reads_by_position()) {}

    // Position i, for the first time.
    MLX_POOLING_INLINE Window<U> new_tap(int64_t i) {
      auto window = tap(i);
      for (int u = 0; u < U; ++u) {
        if constexpr (Op::kWatched) {
          watch_.see(window.cells[u].value, u);
        }
        if (keeps_taps_) {
          store<kLanes>(taps_ + slot(i, u), window.cells[u].value);
        }
      }
      return window;
    }

    // For the second time, with more to do for each than the first: memory is
    // asked for no faster than it comes.
    MLX_POOLING_INLINE Window<U> tap_again(int64_t i) const {
      fetch_ahead(i, i + 1);
      if (!keeps_taps_) {
        return tap(i);
      }
      Window<U> window;
      for (int u = 0; u < U; ++u) {
        window.cells[u] = Op::template tap<kLanes>(taps_ + slot(i, u), i);
      }
      return window;
    }

    MLX_POOLING_INLINE void fetch_ahead(int64_t begin, int64_t end) const {
      for (auto i = begin; i < end; ++i) {
        for (int u = 0; u < U; ++u) {
          ends_.template fetch_cell_ahead<kLanes>(at(i, u), ahead_);
        }
      }
    }

    // What position i makes together with those after it in its block.
    MLX_POOLING_INLINE void keep_rest(const Window<U>& window, int64_t i) {
      for (int u = 0; u < U; ++u) {
        Op::template write<kLanes>(rests_ + slot(i, u), window.cells[u]);
      }
    }
    MLX_POOLING_INLINE Window<U> rest(int64_t i) const {
      Window<U> window;
      for (int u = 0; u < U; ++u) {
        window.cells[u] = Op::template read<kLanes>(rests_ + slot(i, u));
      }
      return window;
    }

    MLX_POOLING_INLINE bool saw_nan() const {
      return watch_.saw_nan();
    }

   private:
    MLX_POOLING_INLINE Window<U> tap(int64_t i) const {
      Window<U> window;
      auto common = ends_.reading({row_.spatial, i, row_.d, row_.h}, i);
      for (int u = 0; u < U; ++u) {
        window.cells[u] = ends_.template read_cell<kLanes>(at(i, u), common);
      }
      return window;
    }

    MLX_POOLING_INLINE int64_t at(int64_t i, int u) const {
      return first_ + i * pitch_ + u * kLanes;
    }
    MLX_POOLING_INLINE int64_t slot(int64_t i, int u) const {
      return ((i & mask_) * U + u) * kLanes;
    }

    const Ends ends_; // where no store can change it
    LinkedRow row_;
    int64_t pitch_;
    int64_t first_;
    uintptr_t ahead_;
    int64_t mask_;
    typename Op::Cells rests_;
    Value* taps_;
    bool keeps_taps_;
    NanWatch<Value, kLanes, U> watch_;
  };

  template <int U, typename Emit>
  MLX_POOLING_INLINE void reduce_strip(
      Ends& ends,
      const LinkedRow& row,
      int64_t ahead,
      int64_t c,
      const Emit& emit) const {
    Strip<U> strip(*this, ends, row, ahead, c);
    const auto length = links_.block;
    const auto last_of_uncut = this->last_of_uncut();
    auto next = to_.begin;
    auto cut = cuts_.begin();
    for (int64_t begin = from_.begin, end; begin < from_.end; begin = end) {
      const auto block = links_.block_at(begin);
      end = std::min(block.end, from_.end);
      auto joined = strip.new_tap(end - 1);
      strip.keep_rest(joined, end - 1);
      for (auto i = end - 2; i >= begin; --i) {
        auto before = strip.new_tap(i);
        before.join(joined);
        joined = before;
        strip.keep_rest(joined, i);
      }
      auto prefix = joined; // of all, where no window ends before
      auto i = end - 1;
      if (made_.has_prefixes(block)) {
        prefix = strip.tap_again(begin);
        i = begin;
      } else {
        strip.fetch_ahead(begin, end);
      }
      while (true) {
        if (last_of_uncut.contains(i)) {
          auto first = i - length + 1;
          auto window = prefix;
          if (first != block.begin) {
            window = strip.rest(first);
            window.join(prefix);
          }
          emit(next++, c, window.moved(row.tap - first));
        } else {
          for (; cut != cuts_.end() && cut->last <= i; ++cut) {
            auto window = window_of(*cut, strip, block.begin, prefix);
            emit(next++, c, window.moved(row.tap + cut->taps));
          }
        }
        if (++i == end) {
          break;
        }
        prefix.join(strip.tap_again(i));
      }
    }
    if constexpr (Op::kWatched) {
      ends.see_nan(strip.saw_nan());
    }
  }

  // Of the rests of blocks before this one and the prefix of this one.
  template <int U>
  MLX_POOLING_INLINE Window<U> window_of(
      const Cut& cut,
      const Strip<U>& strip,
      int64_t block,
      const Window<U>& prefix) const {
    if (cut.is_empty) {
      Window<U> nothing;
      nothing.cells.fill(Op::template nothing<kLanes>());
      return nothing;
    }
    if (cut.first == block) {
      return prefix;
    }
    auto window = strip.rest(cut.first);
    auto whole = cut.next_block;
    for (; whole < block; whole += links_.block) {
      window.join(strip.rest(whole));
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
  int64_t slots_;
  typename Op::Cells rests_;
  Value* taps_; // where reading them again would cost more
  Range uncut_;
  std::vector<Cut> cuts_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
