#include "geometry.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "error.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

int64_t output_size(const Axis& axis, bool ceil_mode) {
  auto room = axis.in + axis.pad_lo + axis.pad_hi - axis.span();
  if (!ceil_mode) {
    return room / axis.stride + 1;
  }
  auto out = ceil_div(room, axis.stride) + 1;
  bool last_starts_outside = axis.start(out - 1) >= axis.in;
  // The second condition keeps the output from becoming empty when the input
  // is: its only window starts at the padding's edge.
  return last_starts_outside && out > 1 ? out - 1 : out;
}

// What a Window may have, which some backends hold in 32 bits.
constexpr int64_t kMostStride = std::numeric_limits<mx::ShapeElem>::max();

void check_axis_size(const Window& w, int i, int64_t size) {
  if (size > std::numeric_limits<mx::ShapeElem>::max()) {
    fail(
        w.name, "output too large: spatial axis ", i, " would have size ", size,
        " but MLX axes hold at most ",
        std::numeric_limits<mx::ShapeElem>::max(), ".");
  }
}

// TensorFlow's and ONNX's SAME_UPPER: an odd element goes to the high end.
void pad_to_same(Axis& axis) {
  auto out = ceil_div(axis.in, axis.stride);
  auto end = (out - 1) * axis.stride + axis.span();
  auto pad = std::max<int64_t>(0, end - axis.in);
  axis.pad_lo = pad / 2;
  axis.pad_hi = pad - axis.pad_lo;
}

Axis sliding_axis(const Window& w, int i, int64_t in) {
  Axis axis = kUnitAxis;
  axis.in = in;
  axis.kernel = w.kernel_size[i];
  axis.stride = w.stride[i];
  axis.dilation = w.dilation[i];
  axis.pad_lo = w.pad_lo[i];
  axis.pad_hi = w.pad_hi[i];
  if (w.same_padding) {
    pad_to_same(axis);
  }
  auto span = axis.span();
  auto padded = axis.in + axis.pad_lo + axis.pad_hi;
  bool rounds_to_one =
      w.ceil_mode && span - padded < axis.stride && axis.start(0) < axis.in;
  if (span > padded && !rounds_to_one) {
    fail(
        w.name, "'kernel_size' must fit in the padded input but spatial axis ",
        i, " has a window of ", span, " (kernel_size ", axis.kernel,
        ", dilation ", axis.dilation, ") and a padded input of ", padded, ".");
  }
  axis.out = output_size(axis, w.ceil_mode);
  check_axis_size(w, i, axis.out);
  if (axis.out == 1) {
    // No window is a stride away: all such axes take the same path.
    axis.stride = std::min(span, kMostStride);
  }
  return axis;
}

Axis adaptive_axis(const Window& w, int i, int64_t in) {
  Axis axis = kUnitAxis;
  axis.in = in;
  axis.out = w.output_size[i].value_or(in);
  if (in == 0 && axis.out > 0) {
    fail(
        w.name, "'x' must not be empty along spatial axis ", i,
        ", which is to have ", axis.out, " outputs.");
  }
  if (axis.out == 0) {
    return axis;
  }
  if (in % axis.out == 0) {
    axis.kernel = axis.stride = in / axis.out;
    return axis;
  }
  // Windows start at every residue of `out`, in lowest terms; the one at the
  // largest residue has most taps.
  auto divisor = std::gcd(in, axis.out);
  axis.kernel = ceil_div((in + axis.out) / divisor - 1, axis.out / divisor);
  axis.adaptive = true;
  return axis;
}

Axis whole_axis(int64_t in, int64_t out) {
  Axis axis = kUnitAxis;
  axis.in = in;
  axis.out = out;
  axis.kernel = in;
  axis.stride = 0;
  return axis;
}

int leading_axes(const mx::Shape& x_shape, int spatial_axes) {
  return static_cast<int>(x_shape.size()) - spatial_axes - 1;
}

} // namespace

Range Axis::taps(int64_t o) const {
  auto s = start(o);
  if (adaptive) {
    return {0, ceil_div((o + 1) * in, out) - s};
  }
  // Most windows are whole, and divide nothing.
  bool is_cut = s + span() > in;
  auto first = s < 0 ? std::min(ceil_div(-s, dilation), kernel) : 0;
  auto last = !is_cut ? kernel : s < in ? ceil_div(in - s, dilation) : 0;
  return {first, std::max(first, last)};
}

int64_t Axis::taps_in_padded(int64_t o) const {
  if (adaptive) {
    return taps(o).size();
  }
  auto end = in + pad_hi;
  auto s = start(o);
  return s + span() <= end ? kernel : ceil_div(end - s, dilation);
}

Range Axis::uncut() const {
  if (adaptive) {
    return {0, 0};
  }
  auto starts = in + pad_lo + 1 - span(); // in the padded input
  auto begin = std::min(ceil_div(pad_lo, stride), out);
  return {begin, std::clamp(ceil_div(starts, stride), begin, out)};
}

bool Axis::passes_through() const {
  return kernel == 1 && stride == 1 && in == out && pad_lo == 0;
}

bool Axis::leaves_input() const {
  return !adaptive && (pad_lo > 0 || start(out - 1) + span() > in);
}

Geometry::Geometry(const mx::Shape& x_shape, int spatial_axes)
    : batch(1),
      channels(x_shape.back()),
      axes{kUnitAxis, kUnitAxis, kUnitAxis},
      count_include_pad(true),
      divisor_override(0),
      minimum(false) {
  for (int i = 0; i < leading_axes(x_shape, spatial_axes); ++i) {
    batch *= x_shape[i];
  }
}

Geometry::Geometry(const Window& window, const mx::Shape& x_shape)
    : Geometry(x_shape, window.spatial_axes()) {
  count_include_pad = window.count_include_pad;
  divisor_override = window.divisor_override.value_or(0);
  minimum = window.minimum;
  int spatial_axes = window.spatial_axes();
  for (int i = 0; i < spatial_axes; ++i) {
    int64_t in = x_shape[leading_axes(x_shape, spatial_axes) + i];
    axes[kMaxSpatialAxes - spatial_axes + i] =
        window.kind == Window::Kind::adaptive ? adaptive_axis(window, i, in)
                                              : sliding_axis(window, i, in);
  }
}

Geometry Geometry::whole(
    const mx::Shape& x_shape, const mx::Shape& y_shape, int spatial_axes) {
  Geometry geometry(x_shape, spatial_axes);
  for (int i = 0; i < spatial_axes; ++i) {
    int at = leading_axes(x_shape, spatial_axes) + i;
    geometry.axes[kMaxSpatialAxes - spatial_axes + i] =
        whole_axis(x_shape[at], y_shape[at]);
  }
  return geometry;
}

int64_t Geometry::taps() const {
  return saturating_product({axes[0].kernel, axes[1].kernel, axes[2].kernel});
}

int64_t Geometry::outputs() const {
  return batch * axes[0].out * axes[1].out * axes[2].out;
}

int64_t Geometry::inputs() const {
  return batch * axes[0].in * axes[1].in * axes[2].in;
}

bool Geometry::passes_through() const {
  return (divisor_override == 0 || divisor_override == 1) &&
      std::all_of(axes.begin(), axes.end(), [](auto& axis) {
           return axis.passes_through();
         });
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

mx::Shape unpooled_shape(const Window& window, const mx::Shape& y_shape) {
  mx::Shape shape = y_shape;
  int spatial_axes = window.spatial_axes();
  for (int i = 0; i < spatial_axes; ++i) {
    auto& size = shape[leading_axes(y_shape, spatial_axes) + i];
    auto smallest = (size - 1) * window.stride[i] - window.pad_lo[i] -
        window.pad_hi[i] + window.kernel_size[i];
    // A plane is empty only where what is unpooled is.
    int64_t some = size == 0 ? 0 : 1;
    auto least = std::max(some, smallest - window.stride[i] + 1);
    auto most = smallest + window.stride[i] - 1;
    auto unpooled = window.output_size[i].value_or(
        size == 0 ? std::max(least, smallest) : smallest);
    if (most < least) {
      fail(
          window.name, "'padding' must leave something of the plane but ",
          "spatial axis ", i, " would have size ", most, " at most.");
    }
    if (unpooled < least || unpooled > most) {
      bool is_given = window.output_size[i].has_value();
      fail(
          window.name, "'output_size' must be ", least, " to ", most,
          " along spatial axis ", i, " but ", is_given ? "got " : "would be ",
          unpooled, is_given ? "." : ", which is the default.");
    }
    check_axis_size(window, i, unpooled);
    size = static_cast<mx::ShapeElem>(unpooled);
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
