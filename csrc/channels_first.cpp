#include "channels_first.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "mlx/ops.h"
#include "mlx/primitives.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

// Of a graph that is still to be evaluated, only its last step is looked at.
bool moves_channels_last(const array& x, int channel_axis) {
  if (!x.has_primitive() ||
      std::string_view(x.primitive().name()) != "Transpose") {
    return false;
  }
  auto axes = static_cast<const mx::Transpose&>(x.primitive()).state();
  std::vector<int> moved(axes.size());
  std::iota(moved.begin(), moved.end(), 0);
  std::rotate(
      moved.begin() + channel_axis, moved.begin() + channel_axis + 1,
      moved.end());
  return axes == moved;
}

// Whether x, evaluated, lies in memory as if its last axis were `channel_axis`.
bool lies_channels_first(const array& x, int channel_axis) {
  auto shape = x.shape();
  auto strides = x.strides();
  std::rotate(shape.begin() + channel_axis, shape.end() - 1, shape.end());
  std::rotate(strides.begin() + channel_axis, strides.end() - 1, strides.end());
  int64_t expected = 1;
  for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) {
      return false;
    }
    expected *= shape[i];
  }
  return true;
}

} // namespace

bool is_channels_first(const array& x, int spatial_axes) {
  int channel_axis = static_cast<int>(x.ndim()) - 1 - spatial_axes;
  return x.shape(-1) > 1 &&
      (moves_channels_last(x, channel_axis) ||
       (x.status() != array::Status::unscheduled && x.size() > 0 &&
        lies_channels_first(x, channel_axis)));
}

array as_planes(const array& x, int spatial_axes, mx::Stream s) {
  return mx::expand_dims(mx::moveaxis(x, -1, -1 - spatial_axes, s), -1, s);
}

array from_planes(const array& planes, int spatial_axes, mx::Stream s) {
  return mx::moveaxis(mx::squeeze(planes, -1, s), -1 - spatial_axes, -1, s);
}

} // namespace mlx_pooling
