#pragma once

#include <array>
#include <cstdint>

#include "mlx/array.h"
#include "window.h"

namespace mlx_pooling {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Positions [begin, end).
struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const {
    return end - begin;
  }
  bool contains(int64_t i) const {
    return begin <= i && i < end;
  }
};

// One spatial axis of a pooling operation.
struct Axis {
  int64_t in;
  int64_t out;
  int64_t kernel;
  int64_t stride; // where there is one output, that of whole windows
  int64_t dilation;
  int64_t pad_lo;
  int64_t pad_hi;
  // Window o is [floor(o * in / out), ceil((o + 1) * in / out)), at most
  // `kernel` taps, whatever the stride.
  bool adaptive;

  // Input position of tap 0; negative inside the low padding.
  int64_t start(int64_t o) const {
    return adaptive ? o * in / out : o * stride - pad_lo;
  }

  // Positions from the first tap of a window to its last.
  int64_t span() const {
    return dilation * (kernel - 1) + 1;
  }

  // Those that lie inside the input.
  Range taps(int64_t o) const;

  // Taps inside the padded input: what `count_include_pad` counts. The
  // overhang of ceil_mode lies outside it.
  int64_t taps_in_padded(int64_t o) const;

  // Windows that no end of the input cuts off, unless they are adaptive.
  Range uncut() const;

  // Whether each window is the input position of the same number.
  bool passes_through() const;

  // Whether some window reaches outside the input.
  bool leaves_input() const;
};

inline constexpr Axis kUnitAxis{
    .in = 1,
    .out = 1,
    .kernel = 1,
    .stride = 1,
    .dilation = 1,
    .pad_lo = 0,
    .pad_hi = 0,
    .adaptive = false};

// A Window applied to an array: (*batch, *spatial, C), channels last. There
// are always three axes; missing leading ones have size 1.
struct Geometry {
  // Throws std::invalid_argument where the window does not fit the shape.
  Geometry(const Window& window, const mlx::core::Shape& x_shape);

  // Every output's window is the whole input, so that taps number positions.
  static Geometry whole(
      const mlx::core::Shape& x_shape,
      const mlx::core::Shape& y_shape,
      int spatial_axes);

  int64_t batch;
  int64_t channels;
  std::array<Axis, kMaxSpatialAxes> axes;
  bool count_include_pad;
  int64_t divisor_override; // 0: none
  bool minimum;

  // Whether each window is the input position of the same number, divided by 1.
  bool passes_through() const;

  int64_t taps() const;    // of the largest window
  int64_t outputs() const; // positions, not counting channels
  int64_t inputs() const;

  // One axis' factor of what an average is divided by. Never 0: a window that
  // counts no tap sums to 0, whatever that is divided by.
  int64_t divisor(int axis, int64_t o) const;

 private:
  Geometry(const mlx::core::Shape& x_shape, int spatial_axes);
};

mlx::core::Shape
output_shape(const Window& window, const mlx::core::Shape& x_shape);

// The shape that an array of shape y is unpooled to. Throws where the window's
// output_size is none that pools to y's.
mlx::core::Shape
unpooled_shape(const Window& window, const mlx::core::Shape& y_shape);

// The shape of x as that of an array without elements: no channels.
mlx::core::Shape extent_shape(const mlx::core::Shape& x_shape);

// The shape of x, from its extent and an array of as many channels.
mlx::core::Shape
input_shape(const mlx::core::Shape& extent, const mlx::core::Shape& y_shape);

} // namespace mlx_pooling
