#include "cpu/fold.h"

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

} // namespace

Geometry folded(Geometry g) {
  auto& [depth, height, width] = g.axes;
  for (int i = 1; i < kMaxSpatialAxes && width.passes_through(); ++i) {
    g.channels *= width.in;
    auto none = unit(width);
    width = std::exchange(height, std::exchange(depth, none));
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
