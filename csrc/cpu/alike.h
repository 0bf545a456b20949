#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Windows that differ in nothing but where they begin have code of their own
// where they are of few columns, rows and channels: more channels do not notice
// what is looked up for each window, and of more their rows would not be in the
// first level of cache any more when the next block of channels reads them.
inline constexpr int64_t kMostAlikeChannels = 64;
inline constexpr int64_t kMostAlikeRows = 4;

inline bool has_alike_columns(int64_t columns) {
  return columns == 2 || columns == 3;
}

// Those of a row that no end cuts off.
inline Range alike_windows(const AxisLinks& width, int64_t channels) {
  bool may_be = channels <= kMostAlikeChannels && width.of.period() == 1;
  return may_be ? width.of.repeating() : Range{0, 0};
}

} // namespace mlx_pooling::cpu
