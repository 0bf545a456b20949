#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/inline.h"
#include "cpu/isa.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Element types as stored, where C++ has none. Half types compute in float;
// the sum of bools is "or", as in MLX.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};
// An integer that stands for how far it is from the zero point, which is 0 of
// those that are averaged as they are.
template <typename Integer>
struct Quantized {
  Integer integer;
};
// One whose powers a window's norm sums.
template <typename Float, int N>
struct Power {
  static constexpr int exponent = N;
  Float base;
};

// A half float that is compared as an integer, in whose order NaNs come last.
template <typename Half>
struct Ordered {
  using Float = Half;
  // How many there are of each sign.
  static constexpr uint16_t kNans =
      std::is_same_v<Half, Float16> ? 0x3ff : 0x7f;
  uint16_t bits;
};

template <typename T>
inline constexpr bool is_half =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
inline constexpr bool is_quantized = requires(T element) { element.integer; };

template <typename T>
inline constexpr bool is_ordered = requires { T::kNans; };

template <typename T>
inline constexpr bool is_power = requires { T::exponent; };

template <typename T>
struct ArithmeticOf {
  using type = std::conditional_t<
      is_half<T>,
      float,
      std::conditional_t<
          is_quantized<T>,
          int32_t,
          std::conditional_t<std::is_same_v<T, Bool>, uint8_t, T>>>;
};

template <typename Half>
struct ArithmeticOf<Ordered<Half>> {
  using type = int16_t;
};

template <typename Float, int N>
struct ArithmeticOf<Power<Float, N>> {
  using type = Float;
};

// What T is compared and summed as.
template <typename T>
using Arithmetic = typename ArithmeticOf<T>::type;

template <typename A>
constexpr A lowest() {
  if constexpr (std::is_floating_point_v<A>) {
    return -std::numeric_limits<A>::infinity();
  } else {
    return std::numeric_limits<A>::lowest();
  }
}

// An unsigned lane wide enough for an offset and at least as wide as A.
template <typename A, typename Offset>
struct OffsetLaneOf {
  static constexpr auto kSize = std::max(sizeof(A), sizeof(Offset));
  using type = std::conditional_t<
      kSize == 1,
      uint8_t,
      std::conditional_t<
          kSize == 2,
          uint16_t,
          std::conditional_t<kSize == 4, uint32_t, uint64_t>>>;
};

template <typename A, typename Offset>
using OffsetLane = typename OffsetLaneOf<A, Offset>::type;

template <typename T, typename V>
MLX_POOLING_INLINE V sum(V a, V b) {
  if constexpr (std::is_same_v<T, Bool>) {
    return a | b;
  } else {
    return a + b;
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
