#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Neighbouring windows of a row whose few channels fit into one vector. What
// they read of a row of the input lies in two vectors, of which each tap
// selects its elements.
struct SideBySide {
  int64_t windows = 0; // at a time; 0 where none fit
  int64_t stride = 0;
  Range uncut = {0, 0}; // windows that no end of the row cuts off
};

// Of windows along the innermost axis, in vectors of so many lanes.
SideBySide
side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes);

// The most vectors that the inputs of a group fill, where windows share none.
inline constexpr int64_t kSpreadVectors = 4;

// Of such windows.
SideBySide
spread_side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes);

} // namespace mlx_pooling::cpu
