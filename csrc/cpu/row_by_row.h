#pragma once

#include "cpu/kernels.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces each window a row at a time, for large windows that share little:
// the taps of a row are read side by side, channel after channel, and a sum is
// that of its rows' sums rather than of one long chain. `Ends` as for Sweep.
template <typename Ends>
class RowByRow {
 public:
  RowByRow(const Links& links, int64_t channels, const Ends& ends)
      : links_(links), channels_(channels), ends_(ends) {}

  // Units [begin, end), each some channels of one output.
  void run(const Tiling& tiling, int64_t begin, int64_t end) {
    for (auto u = begin; u < end; ++u) {
      run(tiling.unit(u));
    }
  }

 private:
  using Op = typename Ends::Op;
  static constexpr int kLanes = Op::kLanes;

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

  void reduce(
      int64_t sample,
      const Link& along_d,
      const Link& along_h,
      const Link& along_w,
      Range channels,
      typename Op::Cells total) {
    auto& [depth, height, width] = links_.axes;
    bool is_first = true;
    for (int64_t i = 0; i < along_d.count; ++i) {
      auto d = along_d.first + i * depth.step;
      auto tap_d = along_d.tap + i * depth.tap_step;
      for (int64_t j = 0; j < along_h.count && along_w.count > 0; ++j) {
        auto h = along_h.first + j * height.step;
        auto tap_h = along_h.tap + j * height.tap_step;
        auto from = (sample * depth.other_size + d) * height.other_size + h;
        auto tap = (tap_d * links_.kernel_height + tap_h) * links_.kernel_width;
        join_row(
            from * width.other_size + along_w.first, tap + along_w.tap,
            along_w.count, channels, total, is_first);
        is_first = false;
      }
    }
    if (is_first) {
      for_each_lane<kLanes>(channels.size(), [&]<int L>(Lanes<L>, int64_t c) {
        Op::template write<L>(total + c, Op::template nothing<L>());
      });
    }
  }

  void join_row(
      int64_t position,
      int64_t tap,
      int64_t count,
      Range channels,
      typename Op::Cells total,
      bool is_first) const {
    auto first = position * channels_ + channels.begin;
    for_each(
        channels,
        [&]<int L, int U>(Lanes<L>, Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          typename Op::template Cell<L> cells[U];
          for (int u = 0; u < U; ++u) {
            cells[u] = ends_.template tap<L>(first + c + u * L, tap);
          }
          for (int64_t k = 1; k < count; ++k) {
            auto at = first + k * links_.axes[2].step * channels_ + c;
            auto tap_here = tap + k * links_.axes[2].tap_step;
            for (int u = 0; u < U; ++u) {
              cells[u] = Op::template joined<L>(
                  cells[u], ends_.template tap<L>(at + u * L, tap_here));
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
        });
  }

  // No element twice, unlike for_each_lane: totals add up.
  template <typename Visit>
  MLX_POOLING_INLINE static void for_each(Range channels, Visit visit) {
    int64_t c = 0;
    if constexpr (kVectorBytes == 64) { // AVX-512 has 32 registers
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
    for (; c < channels.size(); ++c) {
      visit(Lanes<1>{}, Vectors<1>{}, c);
    }
  }

  const Links& links_;
  int64_t channels_;
  const Ends& ends_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
