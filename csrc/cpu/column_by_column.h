#pragma once

#include <vector>

#include "cpu/kernels.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces the columns of a row of windows, each once, and joins those of each
// window: what windows side by side have in common is read where it lies, with
// all of its channels. `Ends` writes as for Sweep, and
//
//   tap(at, tap): the cell of the L elements from `at` on
//   fetch(at): asks for what tap() comes to later
template <typename Ends>
class ColumnByColumn {
 public:
  ColumnByColumn(const Task& task, const Ends& ends)
      : links_(task.links),
        channels_(task.channels),
        ends_(ends),
        columns_(Op::take(scratch_, width().span * channels_)),
        parts_(width().longest) {}

  // Windows [begin, end) of one row. False if there is a NaN that the rule is
  // not for.
  bool run(int64_t begin, int64_t end) {
    Walk walk(links_, begin);
    int64_t next = 0;
    bool is_done = true;
    for (auto i = begin; i < end; ++i, walk.next()) {
      const Link link = width().of[walk.w()];
      auto count = walk.unlinked() ? 0 : link.count;
      auto last = walk.unlinked() ? -1 : width().last(walk.w());
      for (auto w = std::max(next, link.first); w <= last; next = ++w) {
        is_done = reduce(walk, w) && is_done;
      }
      for (int64_t k = 0; k < count; ++k) {
        parts_[k] = {
            column(link.first + k * width().step),
            link.tap + k * width().tap_step};
      }
      with_count(count, [&](auto n) MLX_POOLING_LAMBDA { write(i, n); });
    }
    return is_done;
  }

 private:
  using Op = typename Ends::Op;
  static constexpr int kLanes = Op::kLanes;

  struct Part {
    typename Op::Cells cells;
    int64_t tap;
  };

  const AxisLinks& width() const {
    return links_.axes[2];
  }

  typename Op::Cells column(int64_t w) const {
    return columns_ + w % width().span * channels_;
  }

  // Column w of the walk's windows, over their rows.
  bool reduce(const Walk& walk, int64_t w) const {
    auto to = column(w);
    auto newest = (walk.plane() + walk.last_row() + w) * channels_;
    bool is_done = true;
    for_each_block<typename Op::Lane, kLanes>(
        channels_, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          typename Op::template Cell<kLanes> cells[U];
          NanWatch<typename Op::Value, kLanes> watch;
          bool is_first = true;
          walk.for_each_linked_row([&](int64_t spatial,
                                       int64_t tap) MLX_POOLING_LAMBDA {
            auto at = (walk.plane() + spatial + w) * channels_ + c;
            for (int u = 0; u < U; ++u) {
              auto cell = ends_.template tap<kLanes>(at + u * kLanes, tap);
              if constexpr (Op::kWatched) {
                watch.see(cell.value, u);
              }
              cells[u] =
                  is_first ? cell : Op::template joined<kLanes>(cells[u], cell);
            }
            is_first = false;
          });
          for (int u = 0; u < U; ++u) {
            ends_.template fetch<kLanes>(newest + c + u * kLanes);
            Op::template write<kLanes>(to + (c + u * kLanes), cells[u]);
          }
          if constexpr (Op::kWatched) {
            is_done = is_done && !watch.saw_nan();
          }
        });
    return is_done;
  }

  template <typename Count>
  MLX_POOLING_INLINE void write(int64_t position, Count count) const {
    ends_.write(
        position, 0, channels_, kAheadBytes,
        [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          if (count == 0) {
            return Op::template nothing<L>();
          }
          auto part = [&](int64_t k) MLX_POOLING_LAMBDA {
            return Op::template moved<L>(
                Op::template read<L>(parts_[k].cells + j), parts_[k].tap);
          };
          auto cell = part(0);
          for (int64_t k = 1; k < count; ++k) {
            cell = Op::template joined_aside<L>(cell, part(k));
          }
          return cell;
        });
  }

  const Links& links_;
  int64_t channels_;
  const Ends& ends_;
  Scratch scratch_;
  typename Op::Cells columns_; // the last of them
  std::vector<Part> parts_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
