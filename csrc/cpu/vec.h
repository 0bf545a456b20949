#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "cpu/inline.h"
#include "cpu/isa.h"

// Fixed-size vectors on the compiler's own vector extension (GCC and Clang):
// one source for SSE, AVX2, AVX-512 and NEON, with accumulators that stay in
// registers.

#define MLX_POOLING_LAMBDA __attribute__((always_inline))

// Vectors cross calls within one source only, whose convention is its own.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

#if defined(__AVX512BW__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

// What of the registers may hold results.
#if defined(__AVX512BW__) || defined(__aarch64__)
inline constexpr int kRegisters = 24;
#else
inline constexpr int kRegisters = 12;
#endif

template <typename T, int L>
struct VecOf {
  typedef T type __attribute__((vector_size(L * sizeof(T))));
};

// Compilers do poorly at vectors of one.
template <typename T>
struct VecOf<T, 1> {
  using type = T;
};

template <typename T, int L>
using Vec = typename VecOf<T, L>::type;

template <typename To, typename From>
MLX_POOLING_INLINE To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

template <typename T, int L>
MLX_POOLING_INLINE Vec<T, L> broadcast(T value) {
  return Vec<T, L>{} + value;
}

// The conversions of lanes that x86 has an instruction for, where GCC 12 makes
// them in halves, or even element by element.
#if defined(__AVX512F__)
MLX_POOLING_INLINE __m512i widened(Vec<uint8_t, 16> v) {
  return _mm512_cvtepu8_epi32(bits_as<__m128i>(v));
}
MLX_POOLING_INLINE __m512i widened(Vec<int8_t, 16> v) {
  return _mm512_cvtepi8_epi32(bits_as<__m128i>(v));
}
MLX_POOLING_INLINE __m512i widened(Vec<uint16_t, 16> v) {
  return _mm512_cvtepu16_epi32(bits_as<__m256i>(v));
}
MLX_POOLING_INLINE __m512i widened(Vec<int16_t, 16> v) {
  return _mm512_cvtepi16_epi32(bits_as<__m256i>(v));
}
MLX_POOLING_INLINE __m256i widened_to_16_bits(Vec<uint8_t, 16> v) {
  return _mm256_cvtepu8_epi16(bits_as<__m128i>(v));
}
MLX_POOLING_INLINE __m128i narrowed(Vec<uint32_t, 16> v, uint8_t) {
  return _mm512_cvtepi32_epi8(bits_as<__m512i>(v));
}
MLX_POOLING_INLINE __m256i narrowed(Vec<uint32_t, 16> v, uint16_t) {
  return _mm512_cvtepi32_epi16(bits_as<__m512i>(v));
}
#elif defined(__AVX2__)
MLX_POOLING_INLINE __m256i widened(Vec<uint8_t, 8> v) {
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bits_as<int64_t>(v)));
}
MLX_POOLING_INLINE __m256i widened(Vec<int8_t, 8> v) {
  return _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(bits_as<int64_t>(v)));
}
MLX_POOLING_INLINE __m256i widened(Vec<uint16_t, 8> v) {
  return _mm256_cvtepu16_epi32(bits_as<__m128i>(v));
}
MLX_POOLING_INLINE __m256i widened(Vec<int16_t, 8> v) {
  return _mm256_cvtepi16_epi32(bits_as<__m128i>(v));
}
MLX_POOLING_INLINE __m128i widened_to_16_bits(Vec<uint8_t, 8> v) {
  return _mm_cvtepu8_epi16(_mm_cvtsi64_si128(bits_as<int64_t>(v)));
}
MLX_POOLING_INLINE __m128i narrowed(Vec<uint32_t, 8> v, uint16_t) {
  auto low = _mm256_and_si256(bits_as<__m256i>(v), _mm256_set1_epi32(0xffff));
  return _mm_packus_epi32(
      _mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
}
MLX_POOLING_INLINE int64_t narrowed(Vec<uint32_t, 8> v, uint8_t) {
  auto low = narrowed(v & 0xffu, uint16_t{});
  return _mm_cvtsi128_si64(_mm_packus_epi16(low, low));
}
#endif

template <typename To, int L, typename V>
MLX_POOLING_INLINE Vec<To, L> converted(V v) {
  if constexpr (L == 1) {
    return static_cast<To>(v);
  } else {
    return __builtin_convertvector(v, Vec<To, L>);
  }
}

template <typename To, int L, typename V>
MLX_POOLING_INLINE Vec<To, L> resize(V integers) {
  using Resized = Vec<To, L>;
  if constexpr (L > 1 && sizeof(To) == 4 && requires { widened(integers); }) {
    return bits_as<Resized>(widened(integers));
  } else if constexpr (
      sizeof(To) == 2 && std::is_same_v<V, Vec<uint8_t, L>> &&
      requires { widened_to_16_bits(integers); }) {
    return bits_as<Resized>(widened_to_16_bits(integers));
  } else if constexpr (std::is_same_v<V, Vec<uint32_t, L>> && requires {
                         narrowed(integers, To{});
                       }) {
    return bits_as<Resized>(narrowed(integers, To{}));
  } else {
    return converted<To, L>(integers);
  }
}

// The result of a lane comparison, with lanes resized to those of To.
template <typename To, int L, typename Mask>
MLX_POOLING_INLINE auto resize_mask(Mask mask) {
  using Lane = std::conditional_t<
      sizeof(To) == 1, int8_t,
      std::conditional_t<
          sizeof(To) == 2, int16_t,
          std::conditional_t<sizeof(To) == 4, int32_t, int64_t>>>;
  if constexpr (L == 1) {
    return static_cast<Lane>(mask ? -1 : 0);
  } else {
    return resize<Lane, L>(mask);
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
