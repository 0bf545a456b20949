#include "geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "error.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t output_size(const Axis& axis, bool ceil_mode) {
  auto span = axis.dilation * (axis.kernel - 1) + 1;
  auto room = axis.in + axis.pad_lo + axis.pad_hi - span;
  if (!ceil_mode) {
    return room / axis.stride + 1;
  }
  auto out = ceil_div(room, axis.stride) + 1;
  bool last_starts_outside = axis.start(out - 1) >= axis.in;
  // The second condition keeps the output from becoming empty when the input
  // is: its only window starts at the padding's edge.
  return last_starts_outside && out > 1 ? out - 1 : out;
}

Axis make_axis(const Window& w, int i, int64_t in) {
  Axis axis{
      .in = in,
      .out = 0,
      .kernel = w.kernel_size[i],
      .stride = w.stride[i],
      .dilation = w.dilation[i],
      .pad_lo = w.pad_lo[i],
      .pad_hi = w.pad_hi[i]};
  auto span = axis.dilation * (axis.kernel - 1) + 1;
  auto padded = axis.in + axis.pad_lo + axis.pad_hi;
  if (span > padded) {
    fail(
        w.name, "'kernel_size' must fit in the padded input but spatial axis ",
        i, " has a window of ", span, " (kernel_size ", axis.kernel,
        ", dilation ", axis.dilation, ") and a padded input of ", padded, ".");
  }
  axis.out = output_size(axis, w.ceil_mode);
  if (axis.out > std::numeric_limits<mx::ShapeElem>::max()) {
    fail(
        w.name, "output too large: spatial axis ", i, " would have size ",
        axis.out, " but MLX axes hold at most ",
        std::numeric_limits<mx::ShapeElem>::max(), ".");
  }
  return axis;
}

constexpr Axis kUnitAxis{
    .in = 1,
    .out = 1,
    .kernel = 1,
    .stride = 1,
    .dilation = 1,
    .pad_lo = 0,
    .pad_hi = 0};

} // namespace

TapRange Axis::taps(int64_t o) const {
  auto s = start(o);
  auto first = s < 0 ? ceil_div(-s, dilation) : 0;
  auto last = s < in ? std::min(kernel, ceil_div(in - s, dilation)) : 0;
  first = std::min(first, kernel);
  return {first, std::max(first, last)};
}

int64_t Axis::taps_in_padded(int64_t o) const {
  return std::min(kernel, ceil_div(in + pad_hi - start(o), dilation));
}

int64_t Axis::cover_step() const {
  return dilation / std::gcd(stride, dilation);
}

int64_t Axis::cover_tap_step() const {
  return stride / std::gcd(stride, dilation);
}

CoverRange Axis::covers(int64_t i) const {
  auto reach = i + pad_lo; // o * stride + tap * dilation == reach
  auto lowest = reach - (kernel - 1) * dilation;
  auto first = lowest > 0 ? ceil_div(lowest, stride) : 0;
  auto last = std::min(out - 1, reach / stride);
  auto end_of_residues = std::min(last + 1, first + cover_step());
  while (first < end_of_residues && (reach - first * stride) % dilation != 0) {
    ++first;
  }
  if (first >= end_of_residues) {
    return {0, 0, 0};
  }
  auto count = (last - first) / cover_step() + 1;
  return {first, count, (reach - first * stride) / dilation};
}

bool Axis::leaves_input() const {
  auto last_start = start(out - 1);
  return pad_lo > 0 || last_start + dilation * (kernel - 1) >= in;
}

Geometry::Geometry(const Window& window, const mx::Shape& x_shape)
    : batch(1),
      channels(x_shape.back()),
      axes{kUnitAxis, kUnitAxis, kUnitAxis},
      count_include_pad(window.count_include_pad),
      divisor_override(window.divisor_override.value_or(0)) {
  int spatial_axes = window.spatial_axes();
  int leading = static_cast<int>(x_shape.size()) - spatial_axes - 1;
  for (int i = 0; i < leading; ++i) {
    batch *= x_shape[i];
  }
  for (int i = 0; i < spatial_axes; ++i) {
    axes[kMaxSpatialAxes - spatial_axes + i] =
        make_axis(window, i, x_shape[leading + i]);
  }
}

int64_t Geometry::outputs() const {
  return batch * axes[0].out * axes[1].out * axes[2].out;
}

int64_t Geometry::inputs() const {
  return batch * axes[0].in * axes[1].in * axes[2].in;
}

int64_t Geometry::divisor(int axis, int64_t o) const {
  if (divisor_override != 0) {
    return axis == 0 ? divisor_override : 1;
  }
  auto counted = count_include_pad ? axes[axis].taps_in_padded(o)
                                   : axes[axis].taps(o).size();
  return std::max<int64_t>(1, counted);
}

mx::Shape output_shape(const Window& window, const mx::Shape& x_shape) {
  Geometry geometry(window, x_shape);
  mx::Shape shape = x_shape;
  int spatial_axes = window.spatial_axes();
  for (int i = 0; i < spatial_axes; ++i) {
    shape[shape.size() - 1 - spatial_axes + i] = static_cast<mx::ShapeElem>(
        geometry.axes[kMaxSpatialAxes - spatial_axes + i].out);
  }
  return shape;
}

mx::Shape extent_shape(const mx::Shape& x_shape) {
  auto extent = x_shape;
  extent.back() = 0;
  return extent;
}

mx::Shape input_shape(const mx::Shape& extent, const mx::Shape& y_shape) {
  auto shape = extent;
  shape.back() = y_shape.back();
  return shape;
}

} // namespace mlx_pooling
