#include "checks.h"

#include <algorithm>
#include <limits>

#include "error.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

void check_bytes(
    const mx::Shape& shape, mx::Dtype dtype, const Window& window) {
  // Averages of integers are float32; offsets and indices up to uint32.
  int64_t bytes = std::max<int64_t>(mx::size_of(dtype), sizeof(float));
  for (auto size : shape) {
    if (__builtin_mul_overflow(bytes, int64_t{size}, &bytes)) {
      fail(
          window.name, "output too large to index: shape ", tuple_string(shape),
          ".");
    }
  }
}

} // namespace

mx::Shape checked_output_shape(const Window& window, const mx::array& x) {
  auto shape = output_shape(window, x.shape());
  check_bytes(shape, x.dtype(), window);
  return shape;
}

mx::Shape checked_unpooled_shape(const Window& window, const mx::array& x) {
  auto shape = unpooled_shape(window, x.shape());
  check_plane(x.shape(), window);
  check_plane(shape, window);
  check_bytes(shape, x.dtype(), window);
  return shape;
}

void check_offsets(const mx::Shape& x_shape, const Window& window) {
  if (Geometry(window, x_shape).taps() >=
      std::numeric_limits<uint32_t>::max()) {
    auto too_many =
        "too many taps to number them, which indices and gradients need: ";
    if (window.kind == Window::Kind::adaptive) {
      fail(
          window.name, "windows have ", too_many, "shape ",
          tuple_string(x_shape), ".");
    }
    fail(
        window.name, "'kernel_size' has ", too_many,
        tuple_string(window.kernel_size), ".");
  }
}

void check_plane(const mx::Shape& shape, const Window& window) {
  int64_t plane = 1;
  for (int i = 0; i < window.spatial_axes(); ++i) {
    plane *= shape[shape.size() - 2 - i];
    if (plane >= std::numeric_limits<uint32_t>::max()) {
      fail(
          window.name,
          "indices are uint32 and cannot number the "
          "positions of shape ",
          tuple_string(shape), ".");
    }
  }
}

} // namespace mlx_pooling
