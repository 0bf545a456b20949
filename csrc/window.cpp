#include "window.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "error.h"

namespace mlx_pooling {

namespace {

// MLX shapes are 32-bit, so a larger size can only be a mistake; the bound
// also keeps every product of two sizes inside 64 bits.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

int64_t given_or(int64_t size, int64_t) {
  return size;
}
int64_t given_or(std::optional<int64_t> size, int64_t otherwise) {
  return size.value_or(otherwise);
}

template <typename Sizes>
void check_sizes(
    const Window& window,
    const char* argument,
    const Sizes& sizes,
    int64_t least,
    const char* requirement) {
  auto any = [&](auto is_bad) {
    return std::any_of(sizes.begin(), sizes.end(), [&](auto size) {
      return is_bad(given_or(size, least));
    });
  };
  if (any([&](int64_t size) { return size < least; })) {
    fail(
        window.name, "'", argument, "' must be ", requirement, " but got ",
        tuple_string(sizes), ".");
  }
  if (any([](int64_t size) { return size > kMaxSize; })) {
    fail(
        window.name, "'", argument, "' must be at most ", kMaxSize, " but got ",
        tuple_string(sizes), ".");
  }
}

auto key(const Window& w) {
  return std::tie(
      w.kernel_size, w.stride, w.pad_lo, w.pad_hi, w.dilation, w.ceil_mode,
      w.count_include_pad, w.divisor_override, w.same_padding, w.minimum,
      w.kind, w.output_size);
}

template <typename Sizes>
void check_axes(
    const Window& window, const char* argument, const Sizes& sizes) {
  auto axes = static_cast<size_t>(window.spatial_axes());
  if (axes < 1 || axes > kMaxSpatialAxes || sizes.size() != axes) {
    fail(
        window.name, "'", argument, "' must have a size for each of 1 to ",
        kMaxSpatialAxes, " spatial axes, as the others, but got ",
        tuple_string(sizes), ".");
  }
}

void check_output_size(const Window& window) {
  check_axes(window, "output_size", window.output_size);
  check_sizes(window, "output_size", window.output_size, 0, "non-negative");
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
    std::optional<int64_t> divisor_override,
    bool same_padding,
    bool minimum)
    : name(std::move(name)),
      kernel_size(std::move(kernel_size)),
      stride(std::move(stride)),
      pad_lo(std::move(pad_lo)),
      pad_hi(std::move(pad_hi)),
      dilation(std::move(dilation)),
      ceil_mode(ceil_mode),
      count_include_pad(count_include_pad),
      divisor_override(divisor_override),
      same_padding(same_padding),
      minimum(minimum) {
  check_axes(*this, "kernel_size", this->kernel_size);
  check_axes(*this, "stride", this->stride);
  check_axes(*this, "padding", this->pad_lo);
  check_axes(*this, "padding", this->pad_hi);
  check_axes(*this, "dilation", this->dilation);
  check_sizes(*this, "kernel_size", this->kernel_size, 1, "positive");
  check_sizes(*this, "stride", this->stride, 1, "positive");
  check_sizes(*this, "padding", this->pad_lo, 0, "non-negative");
  check_sizes(*this, "padding", this->pad_hi, 0, "non-negative");
  check_sizes(*this, "dilation", this->dilation, 1, "positive");
  if (divisor_override == 0) {
    fail(this->name, "'divisor_override' must not be zero but got 0.");
  }
}

Window Window::adaptive(std::string name, OutputSizes output_size) {
  Sizes ones(output_size.size(), 1);
  Sizes zeros(output_size.size(), 0);
  Window window(std::move(name), ones, ones, zeros, zeros, ones);
  window.kind = Kind::adaptive;
  window.output_size = std::move(output_size);
  check_output_size(window);
  return window;
}

Window Window::unpool(
    std::string name,
    Sizes kernel_size,
    Sizes stride,
    Sizes pad_lo,
    Sizes pad_hi,
    OutputSizes output_size) {
  Sizes ones(kernel_size.size(), 1);
  Window window(
      std::move(name), std::move(kernel_size), std::move(stride),
      std::move(pad_lo), std::move(pad_hi), std::move(ones));
  window.kind = Kind::unpool;
  window.output_size = std::move(output_size);
  check_output_size(window);
  return window;
}

int64_t Window::taps() const {
  if (kind == Kind::adaptive) {
    return std::numeric_limits<int64_t>::max();
  }
  return saturating_product(kernel_size);
}

int64_t saturating_product(const Window::Sizes& sizes) {
  int64_t product = 1;
  for (auto size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

bool Window::operator==(const Window& other) const {
  return key(*this) == key(other);
}

} // namespace mlx_pooling
