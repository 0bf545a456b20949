#include "cpu/winners.h"

#include <algorithm>

namespace mlx_pooling::cpu {

Winners::Winners(const Geometry& geometry) : axes_(geometry.axes) {
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

bool Winners::is_within(int axis, int64_t o, Range inputs) const {
  auto& [in, out, kernel, stride, dilation, pad_lo, pad_hi, adaptive] =
      axes_[axis];
  auto first = starts[axis][o];
  auto last = first + dilation * (kernel - 1);
  // Dilated windows may stride over the whole input.
  bool has_taps =
      dilation == 1 ? last >= 0 && first < in : first >= 0 && last < in;
  return has_taps && std::max<int64_t>(first, 0) >= inputs.begin &&
      std::min(last, in - 1) < inputs.end;
}

} // namespace mlx_pooling::cpu
