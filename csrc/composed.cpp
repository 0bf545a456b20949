#include "composed.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "geometry.h"
#include "mlx/ops.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

// The taps of an axis that are inside the input for at least one output;
// never empty, so that every window has an element to reduce.
TapRange used_taps(const Axis& axis) {
  TapRange used{axis.kernel, 0};
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o);
    if (taps.size() > 0) {
      used.first = std::min(used.first, taps.first);
      used.last = std::max(used.last, taps.last);
    }
  }
  return used.size() > 0 ? used : TapRange{0, 1};
}

// One axis of a pooling of `x`, and the number that axis has in x.
struct PooledAxis {
  Axis axis;
  TapRange used;
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

// Replaces the axis by its windows; their taps become a new last axis.
array windows_along(
    const array& x,
    const PooledAxis& pooled,
    const array& padding_value,
    mx::Stream s) {
  auto& [axis, used, number] = pooled;
  auto first = axis.start(0) + used.first * axis.dilation;
  auto last = axis.start(axis.out - 1) + (used.last - 1) * axis.dilation;
  auto low = std::max<int64_t>(0, -first);
  auto high = std::max<int64_t>(0, last + 1 - axis.in);
  auto padded = mx::pad(
      x, {number}, {mx::safe_cast(low)}, {mx::safe_cast(high)}, padding_value,
      "constant", s);
  std::vector<array> taps;
  mx::Shape begin(x.ndim(), 0);
  mx::Shape end = padded.shape();
  mx::Shape stride(x.ndim(), 1);
  stride[number] = static_cast<mx::ShapeElem>(axis.stride);
  for (auto tap = used.first; tap < used.last; ++tap) {
    auto at = low + axis.start(0) + tap * axis.dilation;
    begin[number] = static_cast<mx::ShapeElem>(at);
    end[number] =
        static_cast<mx::ShapeElem>(at + (axis.out - 1) * axis.stride + 1);
    taps.push_back(mx::slice(padded, begin, end, stride, s));
  }
  return mx::stack(taps, -1, s);
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
      for (auto tap = used.first; tap < used.last; ++tap) {
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
        auto taps = axis.taps(o);
        return taps.first <= tap && tap < taps.last;
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

array lowest(mx::Dtype dtype) {
  if (mx::issubdtype(dtype, mx::floating)) {
    return array(-std::numeric_limits<float>::infinity(), dtype);
  }
  return dtype == mx::bool_ ? array(false) : array(mx::iinfo(dtype).min, dtype);
}

// The number of the winning tap of each window on the last axis: the last
// NaN, else the first maximum; the number of taps where none is valid.
array winning_tap(const array& windows, const array& valid, mx::Stream s) {
  int taps = windows.shape(-1);
  auto number = mx::arange(taps, s);
  auto is_nan = mx::logical_and(mx::isnan(windows, s), valid, s);
  auto last_nan = mx::max(mx::where(is_nan, number, array(-1), s), -1, true, s);
  auto is_top = mx::logical_and(
      mx::equal(windows, mx::max(windows, -1, true, s), s), valid, s);
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
    std::vector<float> factors(outputs);
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

// The elements of `windows` that `is_winner` marks; at most one a window.
array pick(
    const array& windows,
    const array& is_winner,
    const array& otherwise,
    mx::Stream s) {
  auto zero = mx::zeros_like(windows, s);
  auto picked = mx::astype(
      mx::sum(mx::where(is_winner, windows, zero, s), -1, false, s),
      windows.dtype(), s);
  return mx::where(mx::any(is_winner, -1, false, s), picked, otherwise, s);
}

} // namespace

std::pair<array, array>
composed_max_pool(const array& x, const Window& window, mx::Stream s) {
  auto pooled = pooled_axes(x, window);
  auto windows = accumulable(x, s);
  auto padding_value = lowest(windows.dtype());
  for (auto& axis : pooled) {
    windows = windows_along(windows, axis, padding_value, s);
  }
  windows = mx::flatten(windows, -static_cast<int>(pooled.size()), -1, s);
  auto winner =
      winning_tap(mx::stop_gradient(windows, s), valid_taps(pooled, s), s);
  auto is_winner = mx::equal(mx::arange(windows.shape(-1), s), winner, s);
  auto positions =
      mx::broadcast_to(tap_positions(pooled, s), windows.shape(), s);
  return {
      mx::astype(pick(windows, is_winner, padding_value, s), x.dtype(), s),
      pick(positions, is_winner, array(~uint32_t{0}), s)};
}

array composed_avg_pool(const array& x, const Window& window, mx::Stream s) {
  auto total = accumulable(x, s);
  auto zero = array(0.0f, total.dtype());
  for (auto& axis : pooled_axes(x, window)) {
    total = mx::sum(windows_along(total, axis, zero, s), -1, false, s);
  }
  auto average = mx::divide(total, divisors(x, window, total.dtype(), s), s);
  return mx::astype(average, x.dtype(), s);
}

} // namespace mlx_pooling
