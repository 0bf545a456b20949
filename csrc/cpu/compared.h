#pragma once

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

template <typename T>
using Flip = OffsetLane<Arithmetic<T>, uint8_t>;

// The bits to flip on the way in and out, so that the signed integer or float T
// that an element becomes is the larger the sooner it wins. Of an Ordered one
// they are flipped before it becomes an integer.
template <typename T>
Flip<T> flips(const MaxTask& task) {
  constexpr auto kHighest = Flip<T>(Flip<T>{1} << (8 * sizeof(Flip<T>) - 1));
  if (std::is_floating_point_v<Arithmetic<T>> || is_ordered<T>) {
    return task.minimum ? kHighest : 0;
  }
  auto all = task.dtype == Val::bool_ ? Flip<T>{1} : Flip<T>(~Flip<T>{0});
  auto bits = task.minimum ? all : Flip<T>{0};
  switch (task.dtype) {
    case Val::bool_:
    case Val::uint8:
    case Val::uint16:
    case Val::uint32:
    case Val::uint64:
      return bits ^ kHighest;
    default:
      return bits;
  }
}

// From the sign and magnitude of a half float to a signed integer in its place,
// -0 just below 0, and back.
template <int L>
MLX_POOLING_INLINE Vec<uint16_t, L> mirrored(Vec<uint16_t, L> bits) {
  auto sign = bits_as<Vec<int16_t, L>>(bits) >> 15;
  return bits ^ (bits_as<Vec<uint16_t, L>>(Vec<int16_t, L>(sign)) & 0x7fff);
}

// Elements as they are compared.
template <typename T>
class Compared {
 public:
  using A = Arithmetic<T>;

  explicit Compared(const MaxTask& task) : flips_(flips<T>(task)) {}

  bool are_as_stored() const { // if they are no half types
    return flips_ == 0;
  }

  template <int L>
  MLX_POOLING_INLINE Vec<A, L> read(const T* from) const {
    auto value = flip<L>(load<L>(from));
    if constexpr (is_ordered<T>) {
      auto places = mirrored<L>(bits_as<Vec<uint16_t, L>>(value));
      // NaNs of either sign come last: those below all others go round to
      // there.
      return bits_as<Vec<A, L>>(Vec<uint16_t, L>(places - T::kNans));
    } else {
      return value;
    }
  }

  // The bits to store for what was read.
  template <int L>
  MLX_POOLING_INLINE auto stored(Vec<A, L> value) const {
    if constexpr (is_ordered<T>) {
      auto places = bits_as<Vec<uint16_t, L>>(value) + T::kNans;
      return flip<L>(mirrored<L>(places));
    } else {
      return stored_exactly<T, L>(flip<L>(value));
    }
  }

 private:
  template <int L, typename V>
  MLX_POOLING_INLINE V flip(V value) const {
    return flipped(value, broadcast<Flip<T>, L>(flips_));
  }

  Flip<T> flips_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
