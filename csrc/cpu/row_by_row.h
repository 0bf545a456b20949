#pragma once

#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces each window by parts of its rows, for large windows that share
// little: the taps of a part are read side by side, channel after channel, and
// a sum is that of its parts' sums rather than of one long chain. `Ends` has
// what Sweep asks for, fetch_cell_ahead(at, ahead) as for RowBlocks, and
//
//   tap(at, tap): the cell of L elements of a window, from `at` on
//
template <typename Ends>
class RowByRow {
 public:
  RowByRow(const Links& links, int64_t channels, Ends& ends)
      : links_(links), channels_(channels), ends_(ends) {}

  // Some channels of one output.
  void run(const Tiling::Unit& unit) {
    auto& [depth, height, width] = links_.axes;
    auto row = unit.sample / width.size();
    auto plane = row / height.size();
    auto d = plane % depth.size();
    auto h = row % height.size();
    auto w = unit.sample % width.size();
    Scratch scratch;
    auto total = Op::take(scratch, unit.channels.size());
    reduce(
        plane / depth.size(), depth.of[d], height.of[h], width.of[w],
        unit.channels, total);
    ends_.write(
        unit.sample, unit.channels.begin, unit.channels.size(), kAheadBytes,
        ends_.writing(d, h, w),
        [&]<int L>(Lanes<L>, int64_t j)
            MLX_POOLING_LAMBDA { return Op::template read<L>(total + j); });
  }

 private:
  using Op = typename Ends::Op;
  static constexpr int kLanes = Op::kLanes;
  static constexpr int kMostVectors = kVectorBytes == 64 ? 8 : 4;

  // Of a part: of many channels, as many as hardware follows side by side, of
  // few so many that their sum is still exact enough. A unit's channels do not
  // count: results must not depend on those.
  int64_t most_positions() const {
    return channels_ > kMostVectors * kLanes ? 8 : 256;
  }

  // Bytes to what is asked for ahead: what follows in a position that is larger
  // than a page, or is read at once. Of others so far that hardware, which
  // loses track at the end of a page, does not ask for it itself.
  uintptr_t ahead() const {
    constexpr int64_t kBlock = kMostVectors * kVectorBytes;
    constexpr int64_t kPage = 4096;
    auto position =
        channels_ * static_cast<int64_t>(sizeof(typename Ends::Stored));
    return position > kBlock && position <= kPage ? kPage : kBlock;
  }

  void reduce(
      int64_t sample,
      const Link& along_d,
      const Link& along_h,
      const Link& along_w,
      Range channels,
      typename Op::Cells total) {
    auto& [depth, height, width] = links_.axes;
    bool is_first = true;
    const auto most = most_positions();
    for (int64_t i = 0; i < along_d.count; ++i) {
      auto d = along_d.first + i * depth.step;
      auto tap_d = along_d.tap + i * depth.tap_step;
      for (int64_t j = 0; j < along_h.count; ++j) {
        auto h = along_h.first + j * height.step;
        auto tap_h = along_h.tap + j * height.tap_step;
        auto from = (sample * depth.other_size + d) * height.other_size + h;
        auto tap = (tap_d * links_.kernel_height + tap_h) * links_.kernel_width;
        for (int64_t k = 0; k < along_w.count; k += most) {
          join_part(
              from * width.other_size + along_w.first + k * width.step,
              tap + along_w.tap + k, std::min(along_w.count - k, most),
              channels, total, is_first);
          is_first = false;
        }
      }
    }
    if (is_first) {
      for_each_lane<kLanes>(channels.size(), [&]<int L>(Lanes<L>, int64_t c) {
        Op::template write<L>(total + c, Op::template nothing<L>());
      });
    }
  }

  void join_part(
      int64_t position,
      int64_t tap,
      int64_t count,
      Range channels,
      typename Op::Cells total,
      bool is_first) {
    auto first = position * channels_ + channels.begin;
    auto step = links_.axes[2].step * channels_;
    auto ahead = this->ahead();
    for_each(
        channels,
        [&]<int L, int U>(Lanes<L>, Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          NanWatch<typename Op::Value, L, U> watch;
          auto cell = [&](int64_t at, int64_t tap, int u) MLX_POOLING_LAMBDA {
            ends_.template fetch_cell_ahead<L, 1>(at + u * L, ahead);
            auto cell = ends_.template tap<L>(at + u * L, tap);
            if constexpr (Op::kWatched) {
              watch.see(cell.value, u);
            }
            return cell;
          };
          typename Op::template Cell<L> cells[U];
          auto at = first + c;
          for (int u = 0; u < U; ++u) {
            cells[u] = cell(at, tap, u);
          }
          for (int64_t k = 1; k < count; ++k) {
            at += step;
            for (int u = 0; u < U; ++u) {
              cells[u] = Op::template joined<L>(cells[u], cell(at, tap + k, u));
            }
          }
          for (int u = 0; u < U; ++u) {
            auto to = total + (c + u * L);
            if (!is_first) {
              cells[u] =
                  Op::template joined<L>(Op::template read<L>(to), cells[u]);
            }
            Op::template write<L>(to, cells[u]);
          }
          if constexpr (Op::kWatched) {
            ends_.see_nan(watch.saw_nan());
          }
        });
  }

  // No element twice, unlike for_each_lane: totals add up.
  template <typename Visit>
  MLX_POOLING_INLINE static void for_each(Range channels, Visit visit) {
    int64_t c = 0;
    if constexpr (kMostVectors == 8) {
      for (; c + 8 * kLanes <= channels.size(); c += 8 * kLanes) {
        visit(Lanes<kLanes>{}, Vectors<8>{}, c);
      }
    }
    for (; c + 4 * kLanes <= channels.size(); c += 4 * kLanes) {
      visit(Lanes<kLanes>{}, Vectors<4>{}, c);
    }
    for (; c + kLanes <= channels.size(); c += kLanes) {
      visit(Lanes<kLanes>{}, Vectors<1>{}, c);
    }
    if constexpr (kLanes > 4) {
      for (; c + kLanes / 4 <= channels.size(); c += kLanes / 4) {
        visit(Lanes<kLanes / 4>{}, Vectors<1>{}, c);
      }
    }
    for (; c < channels.size(); ++c) {
      visit(Lanes<1>{}, Vectors<1>{}, c);
    }
  }

  const Links& links_;
  int64_t channels_;
  Ends& ends_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
