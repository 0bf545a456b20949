#include "window.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "error.h"

namespace mlx_pooling {

namespace {

// MLX shapes are 32-bit, so a larger size can only be a mistake; the bound
// also keeps every product of two sizes inside 64 bits.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

void check_sizes(
    const Window& window,
    const char* argument,
    const Window::Sizes& sizes,
    int64_t least,
    const char* requirement) {
  if (std::any_of(
          sizes.begin(), sizes.end(), [&](auto v) { return v < least; })) {
    fail(
        window.name, "'", argument, "' must be ", requirement, " but got ",
        tuple_string(sizes), ".");
  }
  if (std::any_of(
          sizes.begin(), sizes.end(), [](auto v) { return v > kMaxSize; })) {
    fail(
        window.name, "'", argument, "' must be at most ", kMaxSize, " but got ",
        tuple_string(sizes), ".");
  }
}

auto key(const Window& w) {
  return std::tie(
      w.kernel_size, w.stride, w.pad_lo, w.pad_hi, w.dilation, w.ceil_mode,
      w.count_include_pad, w.divisor_override);
}

} // namespace

Window::Window(
    std::string name,
    Sizes kernel_size,
    Sizes stride,
    Sizes pad_lo,
    Sizes pad_hi,
    Sizes dilation,
    bool ceil_mode,
    bool count_include_pad,
    std::optional<int64_t> divisor_override)
    : name(std::move(name)),
      kernel_size(std::move(kernel_size)),
      stride(std::move(stride)),
      pad_lo(std::move(pad_lo)),
      pad_hi(std::move(pad_hi)),
      dilation(std::move(dilation)),
      ceil_mode(ceil_mode),
      count_include_pad(count_include_pad),
      divisor_override(divisor_override) {
  check_sizes(*this, "kernel_size", this->kernel_size, 1, "positive");
  check_sizes(*this, "stride", this->stride, 1, "positive");
  check_sizes(*this, "padding", this->pad_lo, 0, "non-negative");
  check_sizes(*this, "padding", this->pad_hi, 0, "non-negative");
  check_sizes(*this, "dilation", this->dilation, 1, "positive");
  if (divisor_override == 0) {
    fail(this->name, "'divisor_override' must not be zero but got 0.");
  }
}

int64_t Window::taps() const {
  int64_t taps = 1;
  for (auto k : kernel_size) {
    if (__builtin_mul_overflow(taps, k, &taps)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return taps;
}

bool Window::operator==(const Window& other) const {
  return key(*this) == key(other);
}

} // namespace mlx_pooling
