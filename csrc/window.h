#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlx_pooling {

inline constexpr int kMaxSpatialAxes = 3;

// What a user asks for: everything about a pooling operation that does not
// depend on the array it is applied to. Validated once, in the constructor;
// throws std::invalid_argument worded like mlx.nn.
struct Window {
  using Sizes = std::vector<int64_t>;

  Window(
      std::string name,
      Sizes kernel_size,
      Sizes stride,
      Sizes pad_lo,
      Sizes pad_hi,
      Sizes dilation,
      bool ceil_mode = false,
      bool count_include_pad = true,
      std::optional<int64_t> divisor_override = std::nullopt);

  int spatial_axes() const {
    return static_cast<int>(kernel_size.size());
  }

  // The number of taps, saturated at the largest int64_t.
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
};

} // namespace mlx_pooling
