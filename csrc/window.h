#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector> // which mlx/small_vector.h needs

#include "mlx/small_vector.h"

namespace mlx_pooling {

inline constexpr int kMaxSpatialAxes = 3;

// What a user asks for: everything about a pooling operation that does not
// depend on the array it is applied to. Validated once, when it is made;
// throws std::invalid_argument worded like mlx.nn.
struct Window {
  // One of each spatial axis, in place: every operation copies its window.
  template <typename T>
  using OfAxes = mlx::core::SmallVector<T, kMaxSpatialAxes>;

  using Sizes = OfAxes<int64_t>;
  // No value: the size of the input.
  using OutputSizes = OfAxes<std::optional<int64_t>>;

  enum class Kind {
    sliding,  // windows of kernel_size
    adaptive, // output_size windows that share the input out among them
    unpool,   // from the outputs of a sliding window back to its input
  };

  Window(
      std::string name,
      Sizes kernel_size,
      Sizes stride,
      Sizes pad_lo,
      Sizes pad_hi,
      Sizes dilation,
      bool ceil_mode = false,
      bool count_include_pad = true,
      std::optional<int64_t> divisor_override = std::nullopt,
      bool same_padding = false,
      bool minimum = false);

  static Window adaptive(std::string name, OutputSizes output_size);

  // `output_size` has no values for those that follow from the input.
  static Window unpool(
      std::string name,
      Sizes kernel_size,
      Sizes stride,
      Sizes pad_lo,
      Sizes pad_hi,
      OutputSizes output_size);

  int spatial_axes() const {
    return static_cast<int>(kernel_size.size());
  }

  // The number of taps, saturated at the largest int64_t; of an adaptive
  // window, which has as many as the input asks for, that largest.
  int64_t taps() const;

  // Same windows; `name` only words error messages.
  bool operator==(const Window& other) const;

  std::string name;
  Sizes kernel_size;
  Sizes stride;
  Sizes pad_lo;
  Sizes pad_hi;
  Sizes dilation;
  bool ceil_mode;
  bool count_include_pad;
  std::optional<int64_t> divisor_override;
  bool same_padding; // as much as keeps ceil(in / stride) outputs
  bool minimum;      // the least tap wins instead of the largest
  Kind kind = Kind::sliding;
  OutputSizes output_size; // of adaptive and unpool
};

int64_t saturating_product(const Window::Sizes& sizes);

} // namespace mlx_pooling
