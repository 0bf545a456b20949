#pragma once

#include "cpu/inline.h"
#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Windows that differ in nothing but where they begin have code of their own
// where they are of few columns, rows and channels: more channels do not notice
// what is looked up for each window, and are read faster in order than these
// vectors of every window first.
inline constexpr int kMostAlikeVectors = 4;
inline constexpr int64_t kMostAlikeRows = 4;

// Those of a row, which no end cuts off, where vectors have so many lanes.
MLX_POOLING_INLINE Range
alike_windows(const AxisLinks& width, int64_t channels, int64_t lanes) {
  bool are_few = lanes <= channels && channels <= kMostAlikeVectors * lanes &&
      (width.longest == 2 || width.longest == 3);
  return are_few ? width.in_step() : Range{0, 0};
}

} // namespace mlx_pooling::cpu
