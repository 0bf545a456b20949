#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "geometry.h"

namespace mlx_pooling::cpu {

// Where the taps of windows lie in the input.
struct Winners {
  explicit Winners(const Geometry& geometry);

  std::array<std::vector<int64_t>, kMaxSpatialAxes> starts; // of each output
  std::vector<int64_t> taps; // flat positions from there

  // What `taps` ends with, for the tap of a window that has none: too far from
  // anywhere to be in the input.
  static constexpr int64_t kNowhere = int64_t{1} << 60;
};

} // namespace mlx_pooling::cpu
