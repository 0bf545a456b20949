#include "cpu/winners.h"

namespace mlx_pooling::cpu {

Winners::Winners(const Geometry& geometry) {
  for (int axis = 0; axis < kMaxSpatialAxes; ++axis) {
    for (int64_t o = 0; o < geometry.axes[axis].out; ++o) {
      starts[axis].push_back(geometry.axes[axis].start(o));
    }
  }
  auto& [depth, height, width] = geometry.axes;
  for (int64_t d = 0; d < depth.kernel; ++d) {
    for (int64_t h = 0; h < height.kernel; ++h) {
      for (int64_t w = 0; w < width.kernel; ++w) {
        auto row = d * depth.dilation * height.in + h * height.dilation;
        taps.push_back(row * width.in + w * width.dilation);
      }
    }
  }
  taps.push_back(kNowhere);
}

} // namespace mlx_pooling::cpu
