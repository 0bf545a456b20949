#pragma once

#include <utility>

#include "cpu/element.h"
#include "cpu/vec.h"

// Elements of vectors, selected by their places.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Bytes of the vectors that are permuted in registers, of elements of four or
// eight bytes; 0 where there is no instruction for that.
#if defined(__AVX2__)
inline constexpr int kPermutedBytes = kVectorBytes;
#else
inline constexpr int kPermutedBytes = 0;
#endif

// Each lane gets the one so many above it, or as many from the bottom as are
// missing at the top.
template <int kAbove, typename V>
MLX_POOLING_INLINE V rotated(V v) {
  constexpr int kLanes = sizeof(v) / sizeof(v[0]);
  auto of = [&]<int... kLane>(
                std::integer_sequence<int, kLane...>) MLX_POOLING_LAMBDA {
#if defined(__clang__)
    return __builtin_shufflevector(v, v, (kLane + kAbove) % kLanes...);
#else
    using Lane = decltype(v < V{});
    return __builtin_shuffle(v, Lane{(kLane + kAbove) % kLanes...});
#endif
  };
  return of(std::make_integer_sequence<int, kLanes>());
}

// Places in a: [0, L), and in b: [L, 2 L).
template <typename A, int L>
using Places = Vec<OffsetLane<A, uint32_t>, L>;

template <typename A, int L>
MLX_POOLING_INLINE Vec<A, L> permuted(
    Vec<A, L> a,
    [[maybe_unused]] Vec<A, L> b,
    [[maybe_unused]] Places<A, L> places) {
  static_assert(sizeof(a) == kPermutedBytes);
#if defined(__AVX512F__)
  auto at = bits_as<__m512i>(places);
  auto low = bits_as<__m512i>(a);
  auto high = bits_as<__m512i>(b);
  return sizeof(A) == 8
      ? bits_as<Vec<A, L>>(_mm512_permutex2var_epi64(low, at, high))
      : bits_as<Vec<A, L>>(_mm512_permutex2var_epi32(low, at, high));
#elif defined(__AVX2__)
  auto at = bits_as<__m256i>(places);
  auto is_high = _mm256_slli_epi32(at, 28);
  if constexpr (sizeof(A) == 8) { // as two of four bytes
    auto halves = _mm256_shuffle_epi32(_mm256_slli_epi32(at, 1), 0xa0);
    at = _mm256_add_epi32(halves, _mm256_set1_epi64x(int64_t{1} << 32));
    is_high = _mm256_slli_epi32(at, 28);
  }
  auto low = _mm256_permutevar8x32_epi32(bits_as<__m256i>(a), at);
  auto high = _mm256_permutevar8x32_epi32(bits_as<__m256i>(b), at);
  return bits_as<Vec<A, L>>(_mm256_blendv_ps(
      _mm256_castsi256_ps(low), _mm256_castsi256_ps(high),
      _mm256_castsi256_ps(is_high)));
#endif
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
