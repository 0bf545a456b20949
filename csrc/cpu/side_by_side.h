#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Neighbouring windows of a row with few channels.
struct SideBySide {
  int64_t windows = 0; // at a time; 0 where none fit
  int64_t stride = 0;
  Range uncut = {0, 0};  // windows that no end of the row cuts off
  int64_t rows = 0;      // whole ones at a time, where these are as few windows
  bool with_cut = false; // whether those cut off go with others of their row
  int64_t together = 1;  // rows of which the same parts may follow each other
};

// Of windows along the innermost axis, as many as fit into one vector of so
// many lanes. What they read of the input lies in two, of which each tap
// selects its elements.
SideBySide side_by_side(const Links& links, int64_t channels, int64_t lanes);

// The same of windows that share no input: as many as have some to fill so many
// vectors.
inline constexpr int64_t kSpreadVectors = 4;
SideBySide
spread_side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes);

} // namespace mlx_pooling::cpu
