#include "ops.h"

#include <algorithm>
#include <limits>

#include "channels_first.h"
#include "checks.h"
#include "composed.h"
#include "error.h"
#include "geometry.h"
#include "mlx/ops.h"
#include "primitives.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

// Contexts that are open on this thread, of which one may end before those that
// began after it: coroutines take turns.
thread_local int open_contexts = 0;

bool composes(mx::Stream s) {
  return open_contexts > 0 || !has_kernels(s.device);
}

// Whether there is a kernel, which sums the steps from the zero point in int32.
bool averages_quantized(const array& x, const Window& window, mx::Stream s) {
  bool is_known = x.dtype() == mx::int8 || x.dtype() == mx::uint8;
  return is_known && !composes(s) && sums_bytes(window.taps());
}

void check_rank(const array& x, const Window& window) {
  int batched = window.spatial_axes() + 2;
  int ndim = static_cast<int>(x.ndim());
  if (ndim != batched && ndim != batched - 1) {
    fail(
        window.name, "'x' must have ", batched - 1, " (unbatched) or ", batched,
        " axes, channels last, but got shape ", tuple_string(x.shape()), ".");
  }
}

void check_dtype(const array& x, const Window& window, mx::Stream s) {
  if (x.dtype() == mx::float64 && s.device == mx::Device::gpu) {
    fail(window.name, "float64 is not supported on the GPU.");
  }
}

void check(const array& x, const Window& window, mx::Stream s) {
  check_rank(x, window);
  check_dtype(x, window, s);
  checked_output_shape(window, x);
}

void check_max(const array& x, const Window& window, mx::Stream s) {
  check(x, window, s);
  if (mx::issubdtype(x.dtype(), mx::complexfloating)) {
    fail(
        window.name, "the ", window.minimum ? "minimum" : "maximum",
        " of complex numbers is not defined.");
  }
}

void check_unpool(
    const array& x, const array& indices, const Window& window, mx::Stream s) {
  check_rank(x, window);
  check_dtype(x, window, s);
  if (!mx::issubdtype(indices.dtype(), mx::integer)) {
    fail(
        window.name, "'indices' must be integers but got ", indices.dtype(),
        ".");
  }
  if (indices.shape() != x.shape()) {
    fail(
        window.name, "'indices' must have the shape of 'x', ",
        tuple_string(x.shape()), ", but got ", tuple_string(indices.shape()),
        ".");
  }
  checked_unpooled_shape(window, x);
}

// Any integers as uint32. Those too large or negative, which are so as uint64,
// become its largest, which is no position.
array as_positions(const array& indices, mx::Stream s) {
  if (indices.dtype() == mx::uint32) {
    return indices;
  }
  auto largest = std::numeric_limits<uint32_t>::max();
  auto positions = mx::minimum(
      mx::astype(indices, mx::uint64, s), array(uint64_t{largest}), s);
  return mx::astype(positions, mx::uint32, s);
}

// An adaptive pooling may have no outputs: kernels need not know, and the
// gradient is zero.
bool has_no_output(const Window& window) {
  auto& sizes = window.output_size;
  return window.kind == Window::Kind::adaptive &&
      std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

array no_output(const array& x, const Window& window, mx::Stream s) {
  mx::Shape nothing(x.ndim(), 0);
  return mx::reshape(
      mx::slice(x, nothing, nothing, s), output_shape(window, x.shape()), s);
}

// Whether to pool planes of one channel rather than copy x to channels last.
// The copy moves three times the bytes. But on the CPU vectors are of
// neighbours in memory, of which only long rows and windows all of one size
// have as many as there would be channels: benchmarks/channels_first.py.
bool pools_planes(const array& x, const Window& window, mx::Stream s) {
  constexpr int kLongRow = 28;
  bool fills_vectors =
      window.kind == Window::Kind::sliding && x.shape(-2) >= kLongRow;
  return (s.device == mx::Device::gpu || fills_vectors) &&
      is_channels_first(x, window.spatial_axes());
}

// The arrays that pool(x) gives, of planes where that is faster.
template <typename Pool>
std::vector<array>
in_best_layout(const array& x, const Window& window, mx::Stream s, Pool pool) {
  if (!pools_planes(x, window, s)) {
    return pool(x);
  }
  int axes = window.spatial_axes();
  std::vector<array> outputs = pool(as_planes(x, axes, s));
  for (auto& output : outputs) {
    output = from_planes(output, axes, s);
  }
  return outputs;
}

mx::Dtype average_dtype(const array& x) {
  return mx::issubdtype(x.dtype(), mx::inexact) ? x.dtype() : mx::float32;
}

} // namespace

void begin_composed() {
  ++open_contexts;
}

void end_composed() {
  --open_contexts;
}

array max_pool(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check_max(x, window, s);
  if (has_no_output(window)) {
    return no_output(x, window, s);
  }
  if (composes(s)) {
    return composed_max_pool(x, window, s).first;
  }
  if (x.is_tracer()) {
    check_offsets(x.shape(), window);
  }
  auto pool = [&](const array& x) -> std::vector<array> {
    return {
        x.is_tracer() ? max_pool_traced_node(x, window, s).y
                      : max_pool_node(x, window, s)};
  };
  return in_best_layout(x, window, s, pool)[0];
}

std::pair<array, array> max_pool_with_indices(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check_max(x, window, s);
  check_plane(x.shape(), window);
  if (has_no_output(window)) {
    auto y = no_output(x, window, s);
    return {y, mx::astype(y, mx::uint32, s)};
  }
  if (composes(s)) {
    return composed_max_pool(x, window, s);
  }
  check_offsets(x.shape(), window);
  auto pool = [&](const array& x) -> std::vector<array> {
    auto outputs = max_pool_traced_node(x, window, s);
    return {
        outputs.y,
        max_pool_indices_node(outputs.offsets, outputs.extent, window, s)};
  };
  auto outputs = in_best_layout(x, window, s, pool);
  return {outputs[0], outputs[1]};
}

array max_unpool(
    const array& x,
    const array& indices,
    const Window& window,
    mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check_unpool(x, indices, window, s);
  auto positions = mx::stop_gradient(as_positions(indices, s), s);
  return composes(s) ? composed_max_unpool(x, positions, window, s)
                     : max_unpool_node(x, positions, window, s);
}

array avg_pool(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check(x, window, s);
  auto dtype = average_dtype(x);
  if (has_no_output(window)) {
    return no_output(mx::astype(x, dtype, s), window, s);
  }
  if (composes(s)) {
    return composed_avg_pool(mx::astype(x, dtype, s), window, s);
  }
  auto pool = [&](const array& x) -> std::vector<array> {
    return {avg_pool_node(x, dtype, window, s)};
  };
  return in_best_layout(x, window, s, pool)[0];
}

array sum_pool(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check(x, window, s);
  if (x.dtype() != mx::int32 && x.dtype() != mx::int64) {
    fail(window.name, "'x' must be int32 or int64 but got ", x.dtype(), ".");
  }
  auto undivided = window;
  undivided.divisor_override = 1;
  return composes(s) ? composed_sum_pool(x, window, s)
                     : avg_pool_node(x, x.dtype(), undivided, s);
}

std::optional<array> quantized_avg_pool(
    const array& x,
    int32_t zero_point,
    const Window& window,
    mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check(x, window, s);
  if (!averages_quantized(x, window, s)) {
    return std::nullopt;
  }
  auto pool = [&](const array& x) -> std::vector<array> {
    return {quantized_avg_pool_node(x, zero_point, window, s)};
  };
  return in_best_layout(x, window, s, pool)[0];
}

std::optional<array> lp_pool(
    const array& x,
    double exponent,
    const Window& window,
    mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check(x, window, s);
  bool is_known = (x.dtype() == mx::float32 || x.dtype() == mx::float64) &&
      (exponent == 2 || exponent == 3);
  if (!is_known || composes(s)) {
    return std::nullopt;
  }
  auto pool = [&](const array& x) -> std::vector<array> {
    return {lp_pool_node(x, static_cast<int>(exponent), window, s)};
  };
  return in_best_layout(x, window, s, pool)[0];
}

} // namespace mlx_pooling
