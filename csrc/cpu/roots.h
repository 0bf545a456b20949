#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu/compare.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

template <typename A, int L>
MLX_POOLING_INLINE Vec<A, L> square_root(Vec<A, L> square) {
  if constexpr (L == 1) {
    return std::sqrt(square);
  } else {
    for (int i = 0; i < L; ++i) {
      square[i] = std::sqrt(square[i]);
    }
    return square;
  }
}

// Newton's, from a number with a third of the exponent, which is as exact as 5
// bits: each step doubles them. As of a power, NaN of what is negative.
template <typename A, int L>
MLX_POOLING_INLINE Vec<A, L> cube_root(Vec<A, L> cube) {
  using Limits = std::numeric_limits<A>;
  using Bits = std::conditional_t<sizeof(A) == 4, int32_t, int64_t>;
  constexpr bool is_float = sizeof(A) == 4;
  constexpr int kSteps = is_float ? 3 : 4;
  // Subnormal numbers have no exponent to take a third of.
  constexpr A kNormal = is_float ? 0x1p24 : 0x1p54;
  constexpr A kRootOfNormal = is_float ? 0x1p8 : 0x1p18;
  constexpr A kThird = A{1} / 3;
  constexpr A kBias = Limits::max_exponent - 1;
  // What the mantissa, as part of the exponent, is too large by.
  constexpr A kExcess = 0.033;
  constexpr A kOne = int64_t{1} << (Limits::digits - 1); // of an exponent
  constexpr auto kGuess = static_cast<Bits>((kBias * 2 / 3 - kExcess) * kOne);

  const auto zero = broadcast<A, L>(0);
  const auto one = broadcast<A, L>(1);
  auto is_small = cube < broadcast<A, L>(Limits::min());
  auto normal = cube * chosen<L>(is_small, one * kNormal, one);
  auto third = converted<A, L>(bits_as<Vec<Bits, L>>(normal)) * kThird;
  Vec<Bits, L> guess = converted<Bits, L>(third) + kGuess;
  auto root = bits_as<Vec<A, L>>(guess);
  for (int i = 0; i < kSteps; ++i) {
    root += (normal / (root * root) - root) * kThird;
  }
  root /= chosen<L>(is_small, one * kRootOfNormal, one);
  auto is_regular =
      (cube > zero) & (cube < broadcast<A, L>(Limits::infinity()));
  auto nan = broadcast<A, L>(Limits::quiet_NaN());
  return chosen<L>(is_regular, root, chosen<L>(cube < zero, nan, cube));
}

template <int N, typename A, int L>
MLX_POOLING_INLINE Vec<A, L> root(Vec<A, L> power) {
  if constexpr (N == 2) {
    return square_root<A, L>(power);
  } else {
    static_assert(N == 3);
    return cube_root<A, L>(power);
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
