#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/links.h"
#include "geometry.h"

namespace mlx_pooling::cpu {

// Division of a tap by the number of taps in a row, as a multiplication of 16
// bits of which the upper half is shifted.
struct RowOfTap {
  explicit RowOfTap(int64_t kernel_width);

  int shift;
  int64_t reciprocal;
  int64_t taps; // for so many it is exact
};

// Whether neighbouring windows mostly have the same winner, and WinnerRuns can
// tell.
bool winners_run(const Geometry& geometry);

// Where the taps of windows lie in the input.
struct Winners {
  explicit Winners(const Geometry& geometry);

  // The windows along an axis that surely have taps in the input, and none that
  // is outside of these inputs: neighbours, since starts never step back.
  Range within(int axis, Range inputs) const;

  std::array<std::vector<int64_t>, kMaxSpatialAxes> starts; // of each output
  std::vector<int64_t> taps;    // flat positions from there, or, where that
  std::optional<Links> windows; // would be a long list, what they follow from
  std::optional<RowOfTap> row_of_tap; // if winners_run()

  // What `taps` ends with, for the tap of a window that has none: too far from
  // anywhere to be in the input.
  static constexpr int64_t kNowhere = int64_t{1} << 60;

 private:
  std::array<Axis, kMaxSpatialAxes> axes_;
};

} // namespace mlx_pooling::cpu
