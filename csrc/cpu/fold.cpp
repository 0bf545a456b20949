#include "cpu/fold.h"

#include <limits>
#include <utility>

namespace mlx_pooling::cpu {

namespace {

Axis unit(Axis axis) {
  axis.in = axis.out = 1;
  return axis;
}

Axis pass_through(int64_t positions) {
  auto axis = kUnitAxis;
  axis.in = axis.out = positions;
  return axis;
}

// Whether the only window is all of the input.
bool is_whole(const Axis& axis) {
  return axis.out == 1 && axis.kernel == axis.in && axis.pad_lo == 0 &&
      axis.dilation == 1;
}

Axis whole(int64_t positions) {
  auto axis = kUnitAxis;
  axis.in = axis.kernel = axis.stride = positions;
  return axis;
}

// Whether the rows of a plane may be one, whose positions can be counted.
bool are_one_row(const Axis& height, const Axis& width) {
  return is_whole(height) && is_whole(width) &&
      height.in <= std::numeric_limits<int32_t>::max() / width.in;
}

} // namespace

Geometry folded(Geometry g) {
  auto& [depth, height, width] = g.axes;
  for (int i = 1; i < kMaxSpatialAxes && width.passes_through(); ++i) {
    g.channels *= width.in;
    auto none = unit(width);
    width = std::exchange(height, std::exchange(depth, none));
  }
  for (int i = 1; i < kMaxSpatialAxes && are_one_row(height, width); ++i) {
    width = whole(height.in * width.in);
    height = std::exchange(depth, kUnitAxis);
  }
  for (auto* axis : {&depth, &height}) {
    if (!axis->passes_through()) {
      break;
    }
    g.batch *= axis->in;
    *axis = unit(*axis);
  }
  return g;
}

Stages stages(const Geometry& g, bool of_gradient) {
  auto planes = g;
  auto& depth = planes.axes[0];
  depth = pass_through(of_gradient ? depth.out : depth.in);
  auto columns = g;
  for (int i : {1, 2}) {
    auto& axis = columns.axes[i];
    axis = pass_through(of_gradient ? axis.in : axis.out);
  }
  return {folded(planes), folded(columns)};
}

} // namespace mlx_pooling::cpu
