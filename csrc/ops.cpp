#include "ops.h"

#include <limits>

#include "composed.h"
#include "error.h"
#include "mlx/ops.h"
#include "primitives.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

thread_local bool composed_on_this_thread = false;

bool composes(mx::Stream s) {
  return composed_on_this_thread || !has_kernels(s.device);
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

void check_size(const mx::Shape& shape, mx::Dtype dtype, const Window& window) {
  int64_t bytes = mx::size_of(dtype);
  for (auto size : shape) {
    if (__builtin_mul_overflow(bytes, int64_t{size}, &bytes)) {
      fail(
          window.name, "output too large to index: shape ", tuple_string(shape),
          ".");
    }
  }
}

void check(const array& x, const Window& window, mx::Stream s) {
  check_rank(x, window);
  check_dtype(x, window, s);
  check_size(output_shape(window, x.shape()), x.dtype(), window);
}

void check_max(const array& x, const Window& window, mx::Stream s) {
  check(x, window, s);
  if (mx::issubdtype(x.dtype(), mx::complexfloating)) {
    fail(window.name, "the maximum of complex numbers is not defined.");
  }
}

void check_offsets(const Window& window) {
  if (window.taps() >= std::numeric_limits<uint32_t>::max()) {
    fail(
        window.name,
        "'kernel_size' has too many taps to number them, which "
        "indices and gradients need: ",
        tuple_string(window.kernel_size), ".");
  }
}

void check_indices(const array& x, const Window& window) {
  int64_t plane = 1;
  for (int i = 0; i < window.spatial_axes(); ++i) {
    plane *= x.shape(-2 - i);
    if (plane >= std::numeric_limits<uint32_t>::max()) {
      fail(
          window.name,
          "'return_indices' is uint32 and cannot number the "
          "positions of shape ",
          tuple_string(x.shape()), ".");
    }
  }
}

} // namespace

bool set_composed(bool composed) {
  return std::exchange(composed_on_this_thread, composed);
}

array max_pool(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check_max(x, window, s);
  if (composes(s)) {
    return composed_max_pool(x, window, s).first;
  }
  if (!x.is_tracer()) {
    return max_pool_node(x, window, s);
  }
  check_offsets(window);
  return max_pool_traced_node(x, window, s).y;
}

std::pair<array, array> max_pool_with_indices(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check_max(x, window, s);
  check_indices(x, window);
  if (composes(s)) {
    return composed_max_pool(x, window, s);
  }
  check_offsets(window);
  auto outputs = max_pool_traced_node(x, window, s);
  return {
      outputs.y,
      max_pool_indices_node(outputs.offsets, outputs.extent, window, s)};
}

array avg_pool(
    const array& x, const Window& window, mx::StreamOrDevice stream_or_device) {
  auto s = mx::to_stream(stream_or_device);
  check(x, window, s);
  auto input = mx::issubdtype(x.dtype(), mx::inexact)
      ? x
      : mx::astype(x, mx::float32, s);
  return composes(s) ? composed_avg_pool(input, window, s)
                     : avg_pool_node(input, window, s);
}

} // namespace mlx_pooling
