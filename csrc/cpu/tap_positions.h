#pragma once

#include <cstdint>
#include <limits>

#include "cpu/links.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Of a window that has none.
template <typename Offset>
inline constexpr Offset kNoTap = std::numeric_limits<Offset>::max();

// Flat positions of taps from the first, computed rather than looked up: not
// every instruction set has a vector of loads.
template <typename Offset>
class TapPositions {
 public:
  explicit TapPositions(const Links& links)
      : kernel_height_(links.axes[1].kernel),
        kernel_width_(links.axes[2].kernel) {
    auto& [depth, height, width] = links.axes;
    auto next_row = height.step * width.other_size;
    auto next_plane = depth.step * height.other_size * width.other_size;
    per_tap_ = width.step;
    per_row_ = next_row - width.kernel * width.step;
    per_plane_ = next_plane - height.kernel * next_row;
    is_volume_ = depth.kernel > 1;
  }

  // In To, as what flat positions are to be added up.
  template <typename To, int L>
  MLX_POOLING_INLINE Vec<To, L> of(Vec<uint32_t, L> tap) const {
    auto times = [](Vec<uint32_t, L> count, int64_t step) MLX_POOLING_LAMBDA {
      return resize<To, L>(count) * broadcast<To, L>(static_cast<To>(step));
    };
    auto row = quotient<L>(tap, kernel_width_);
    auto position = times(tap, per_tap_) + times(row, per_row_);
    if (is_volume_) {
      position += times(quotient<L>(row, kernel_height_), per_plane_);
    }
    return position;
  }

 private:
  // Of numbers below 2^16 a float is near enough to the exact quotient, which
  // halves keep away from whole numbers.
  template <int L>
  MLX_POOLING_INLINE static Vec<uint32_t, L>
  quotient(Vec<uint32_t, L> number, uint32_t by) {
    if constexpr (sizeof(Offset) > 2) {
      return number / broadcast<uint32_t, L>(by);
    } else {
      auto halves = converted<float, L>(bits_as<Vec<int32_t, L>>(number)) +
          broadcast<float, L>(0.5f);
      auto quotient = halves * broadcast<float, L>(1 / static_cast<float>(by));
      return bits_as<Vec<uint32_t, L>>(converted<int32_t, L>(quotient));
    }
  }

  uint32_t kernel_height_;
  uint32_t kernel_width_;
  int64_t per_tap_;
  int64_t per_row_;
  int64_t per_plane_;
  bool is_volume_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
