#include "composed.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "geometry.h"
#include "mlx/ops.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

// The taps of an axis that are inside the input for at least one output;
// never empty, so that every window has an element to reduce.
Range used_taps(const Axis& axis) {
  Range used{axis.kernel, 0};
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o);
    if (taps.size() > 0) {
      used.begin = std::min(used.begin, taps.begin);
      used.end = std::max(used.end, taps.end);
    }
  }
  return used.size() > 0 ? used : Range{0, 1};
}

// One axis of a pooling of `x`, and the number that axis has in x.
struct PooledAxis {
  Axis axis;
  Range used;
  int number;
};

std::vector<PooledAxis> pooled_axes(const array& x, const Window& window) {
  Geometry geometry(window, x.shape());
  std::vector<PooledAxis> pooled;
  int spatial_axes = window.spatial_axes();
  int first = static_cast<int>(x.ndim()) - 1 - spatial_axes;
  for (int i = 0; i < spatial_axes; ++i) {
    auto& axis = geometry.axes[kMaxSpatialAxes - spatial_axes + i];
    pooled.push_back({axis, used_taps(axis), first + i});
  }
  return pooled;
}

array padded(
    const array& x,
    int axis,
    int64_t low,
    int64_t high,
    const array& value,
    mx::Stream s) {
  return mx::pad(
      x, {axis}, {mx::safe_cast(low)}, {mx::safe_cast(high)}, value, "constant",
      s);
}

// With so much padding a graph cannot be compiled shapeless. It must not be:
// where windows lie is part of it.
constexpr int64_t kUnreplayable = 1;

array adaptive_windows_along(
    const array& x,
    const PooledAxis& pooled,
    const array& padding_value,
    mx::Stream s) {
  auto& [axis, used, number] = pooled;
  auto extended = padded(x, number, 0, kUnreplayable, padding_value, s);
  std::vector<array> windows;
  mx::Shape begin(x.ndim(), 0);
  mx::Shape end = x.shape();
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o).end;
    begin[number] = static_cast<mx::ShapeElem>(axis.start(o));
    end[number] = static_cast<mx::ShapeElem>(axis.start(o) + taps);
    auto window = mx::slice(extended, begin, end, s);
    windows.push_back(
        padded(window, number, 0, axis.kernel - taps, padding_value, s));
  }
  return mx::moveaxis(mx::stack(windows, number, s), number + 1, -1, s);
}

array sliding_windows_along(
    const array& x,
    const PooledAxis& pooled,
    const array& padding_value,
    mx::Stream s) {
  auto& [axis, used, number] = pooled;
  auto first = axis.start(0) + used.begin * axis.dilation;
  auto last = axis.start(axis.out - 1) + (used.end - 1) * axis.dilation;
  auto low = std::max<int64_t>(0, -first);
  // Nor can it with slices that are a part only.
  auto least = axis.out < axis.in ? 0 : kUnreplayable;
  auto high = std::max<int64_t>(least, last + 1 - axis.in);
  auto extended = padded(x, number, low, high, padding_value, s);
  std::vector<array> taps;
  mx::Shape begin(x.ndim(), 0);
  mx::Shape end = extended.shape();
  mx::Shape stride(x.ndim(), 1);
  stride[number] = static_cast<mx::ShapeElem>(axis.stride);
  for (auto tap = used.begin; tap < used.end; ++tap) {
    auto at = low + axis.start(0) + tap * axis.dilation;
    begin[number] = static_cast<mx::ShapeElem>(at);
    end[number] =
        static_cast<mx::ShapeElem>(at + (axis.out - 1) * axis.stride + 1);
    taps.push_back(mx::slice(extended, begin, end, stride, s));
  }
  return mx::stack(taps, -1, s);
}

// Replaces the axis by its windows; their taps become a new last axis, with
// `padding_value` for those beyond the input.
array windows_along(
    const array& x,
    const PooledAxis& pooled,
    const array& padding_value,
    mx::Stream s) {
  return pooled.axis.adaptive
      ? adaptive_windows_along(x, pooled, padding_value, s)
      : sliding_windows_along(x, pooled, padding_value, s);
}

using TapFunction =
    std::function<int64_t(const Axis& axis, int64_t o, int64_t tap)>;

// f over (outputs, taps) of each axis, combined over axes into an array that
// broadcasts against the windows of x: (*outputs, 1, taps of all axes).
array for_each_tap(
    const std::vector<PooledAxis>& pooled,
    mx::Dtype dtype,
    const TapFunction& f,
    const std::function<array(const array&, const array&, int)>& combine,
    mx::Stream s) {
  array all(0);
  int count = static_cast<int>(pooled.size());
  for (int i = 0; i < count; ++i) {
    auto& [axis, used, number] = pooled[i];
    std::vector<int64_t> values;
    for (int64_t o = 0; o < axis.out; ++o) {
      for (auto tap = used.begin; tap < used.end; ++tap) {
        values.push_back(f(axis, o, tap));
      }
    }
    mx::Shape shape(2 * count + 1, 1);
    shape[i] = static_cast<mx::ShapeElem>(axis.out);
    shape[count + 1 + i] = static_cast<mx::ShapeElem>(used.size());
    auto one = mx::astype(array(values.begin(), shape, mx::int64), dtype, s);
    all = i == 0 ? one : combine(all, one, i);
  }
  return mx::flatten(all, -count, -1, s);
}

array valid_taps(const std::vector<PooledAxis>& pooled, mx::Stream s) {
  return for_each_tap(
      pooled, mx::bool_,
      [](const Axis& axis, int64_t o, int64_t tap) {
        return axis.taps(o).contains(tap);
      },
      [&](const array& a, const array& b, int) {
        return mx::logical_and(a, b, s);
      },
      s);
}

array tap_positions(const std::vector<PooledAxis>& pooled, mx::Stream s) {
  return for_each_tap(
      pooled, mx::uint32,
      [](const Axis& axis, int64_t o, int64_t tap) {
        return axis.start(o) + tap * axis.dilation;
      },
      [&](const array& a, const array& b, int i) {
        auto size = array(static_cast<uint32_t>(pooled[i].axis.in));
        return mx::add(mx::multiply(a, size, s), b, s);
      },
      s);
}

// What every other element wins over.
array least_winning(mx::Dtype dtype, bool minimum) {
  if (mx::issubdtype(dtype, mx::floating)) {
    auto infinity = std::numeric_limits<float>::infinity();
    return array(minimum ? infinity : -infinity, dtype);
  }
  if (dtype == mx::bool_) {
    return array(minimum);
  }
  mx::iinfo info(dtype);
  return minimum ? array(info.max, dtype) : array(info.min, dtype);
}

array extreme(const array& windows, bool minimum, mx::Stream s) {
  return minimum ? mx::min(windows, -1, true, s)
                 : mx::max(windows, -1, true, s);
}

// The number of the winning tap of each window on the last axis: the last
// NaN, else the first extreme; the number of taps where none is valid.
array winning_tap(
    const array& windows, const array& valid, bool minimum, mx::Stream s) {
  int taps = windows.shape(-1);
  auto number = mx::arange(taps, s);
  auto is_nan = mx::logical_and(mx::isnan(windows, s), valid, s);
  auto last_nan = mx::max(mx::where(is_nan, number, array(-1), s), -1, true, s);
  auto is_top = mx::logical_and(
      mx::equal(windows, extreme(windows, minimum, s), s), valid, s);
  auto first_top =
      mx::min(mx::where(is_top, number, array(taps), s), -1, true, s);
  return mx::where(
      mx::greater_equal(last_nan, array(0), s), last_nan, first_top, s);
}

// Half types as float32, so that sums, those of gradients too, round once.
array accumulable(const array& x, mx::Stream s) {
  bool is_half = x.dtype() == mx::float16 || x.dtype() == mx::bfloat16;
  return is_half ? mx::astype(x, mx::float32, s) : x;
}

// What each output of an average is divided by, shaped (*outputs, 1).
array divisors(
    const array& x, const Window& window, mx::Dtype dtype, mx::Stream s) {
  Geometry geometry(window, x.shape());
  int spatial_axes = window.spatial_axes();
  array all(1.0f, dtype);
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto outputs = geometry.axes[i].out;
    std::vector<double> factors(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      factors[o] = geometry.divisor(i, o);
    }
    mx::Shape shape(kMaxSpatialAxes + 1, 1);
    shape[i] = static_cast<mx::ShapeElem>(outputs);
    all = mx::multiply(all, array(factors.begin(), shape, dtype), s);
  }
  auto shape = all.shape();
  shape.erase(shape.begin(), shape.end() - 1 - spatial_axes);
  return mx::reshape(all, shape, s);
}

// The element of each row of the last axis that `number` names, `otherwise`
// where it is the number beyond. Its gradient reaches no other element, be it
// NaN.
array pick(
    const array& rows,
    const array& number,
    const array& otherwise,
    mx::Stream s) {
  auto shape = rows.shape();
  shape.back() = 1;
  auto beyond = mx::broadcast_to(otherwise, shape, s);
  return mx::squeeze(
      mx::take_along_axis(
          mx::concatenate({rows, beyond}, -1, s), number, -1, s),
      -1, s);
}

// Which position of x each of a plane of `places` takes its value from: the
// first that names it in `positions`, (batch, positions, C); else all ones.
array unpool_sources(const array& positions, int64_t places, mx::Stream s) {
  auto batch = positions.shape(0);
  auto channels = positions.shape(2);
  auto along = [&](int axis) {
    mx::Shape shape(3, 1);
    shape[axis] = positions.shape(axis);
    return mx::reshape(
        mx::arange(positions.shape(axis), mx::int64, s), shape, s);
  };
  // One more place collects what lies outside.
  auto place = mx::minimum(positions, array(uint32_t(places)), s);
  auto plane = mx::add(mx::multiply(along(0), array(places + 1), s), place, s);
  auto target =
      mx::add(mx::multiply(plane, array(int64_t{channels}), s), along(2), s);
  auto number = mx::broadcast_to(
      mx::astype(along(1), mx::uint32, s), positions.shape(), s);
  auto none = std::numeric_limits<uint32_t>::max();
  auto places_of_all = int64_t{batch} * (places + 1) * channels;
  auto sources = mx::scatter_min(
      mx::full(mx::Shape(1, mx::safe_cast(places_of_all)), none, mx::uint32, s),
      mx::flatten(target, s), mx::reshape(number, {-1, 1}, s), 0, s);
  return mx::slice(
      mx::reshape(sources, {batch, mx::safe_cast(places + 1), channels}, s),
      {0, 0, 0}, {batch, mx::safe_cast(places), channels}, s);
}

// Zeros of a shape, out of x, which has no element: a graph without x could be
// compiled shapeless.
array zeros_before(const array& x, const mx::Shape& shape, mx::Stream s) {
  auto y = x;
  for (int axis = 0; axis < static_cast<int>(x.ndim()); ++axis) {
    y = padded(y, axis, shape[axis], 0, array(0, x.dtype()), s);
  }
  return mx::slice(y, mx::Shape(x.ndim(), 0), shape, s);
}

} // namespace

std::pair<array, array>
composed_max_pool(const array& x, const Window& window, mx::Stream s) {
  auto pooled = pooled_axes(x, window);
  auto windows = accumulable(x, s);
  auto padding_value = least_winning(windows.dtype(), window.minimum);
  for (auto& axis : pooled) {
    windows = windows_along(windows, axis, padding_value, s);
  }
  windows = mx::flatten(windows, -static_cast<int>(pooled.size()), -1, s);
  auto winner = mx::stop_gradient(
      winning_tap(
          mx::stop_gradient(windows, s), valid_taps(pooled, s), window.minimum,
          s),
      s);
  auto positions =
      mx::broadcast_to(tap_positions(pooled, s), windows.shape(), s);
  return {
      mx::astype(pick(windows, winner, padding_value, s), x.dtype(), s),
      pick(positions, winner, array(~uint32_t{0}), s)};
}

array composed_max_unpool(
    const array& x,
    const array& positions,
    const Window& window,
    mx::Stream s) {
  auto y_shape = unpooled_shape(window, x.shape());
  if (x.size() == 0) {
    return zeros_before(x, y_shape, s);
  }
  auto plane = [&](const mx::Shape& shape) {
    auto channels = shape.end() - 1;
    return std::accumulate(
        channels - window.spatial_axes(), channels, int64_t{1},
        std::multiplies<>());
  };
  mx::Shape planes{-1, mx::safe_cast(plane(x.shape())), x.shape(-1)};
  auto sources =
      unpool_sources(mx::reshape(positions, planes, s), plane(y_shape), s);
  auto from = mx::reshape(x, planes, s);
  auto beyond = mx::zeros({from.shape(0), 1, from.shape(2)}, x.dtype(), s);
  auto source =
      mx::minimum(sources, array(static_cast<uint32_t>(planes[1])), s);
  auto y = mx::take_along_axis(
      mx::concatenate({from, beyond}, 1, s), mx::stop_gradient(source, s), 1,
      s);
  return mx::reshape(y, y_shape, s);
}

array composed_sum_pool(const array& x, const Window& window, mx::Stream s) {
  auto total = x;
  auto zero = array(0, x.dtype());
  for (auto& axis : pooled_axes(x, window)) {
    total = mx::sum(windows_along(total, axis, zero, s), -1, false, s);
  }
  return total;
}

array composed_avg_pool(const array& x, const Window& window, mx::Stream s) {
  auto total = composed_sum_pool(accumulable(x, s), window, s);
  auto average = mx::divide(total, divisors(x, window, total.dtype(), s), s);
  return mx::astype(average, x.dtype(), s);
}

} // namespace mlx_pooling
