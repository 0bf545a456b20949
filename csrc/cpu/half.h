#pragma once

#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

#if defined(__F16C__)
// Few lanes as the first of a whole register, and back.
template <typename V>
MLX_POOLING_INLINE __m128i in_register_of_few(V few) {
  int64_t bits = 0;
  std::memcpy(&bits, &few, sizeof(few));
  return _mm_cvtsi64_si128(bits);
}

template <typename V>
MLX_POOLING_INLINE V first_of(__m128i whole) {
  auto bits = _mm_cvtsi128_si64(whole);
  V few;
  std::memcpy(&few, &bits, sizeof(few));
  return few;
}
#endif

// IEEE binary16 to binary32, exact, NaN and infinity kept.
template <int L>
MLX_POOLING_INLINE Vec<float, L> widen_float16(Vec<uint16_t, L> half) {
#if defined(__AVX512F__)
  if constexpr (L == 16) {
    return bits_as<Vec<float, L>>(_mm512_cvtph_ps(bits_as<__m256i>(half)));
  }
#endif
#if defined(__F16C__)
  if constexpr (L == 8) {
    return bits_as<Vec<float, L>>(_mm256_cvtph_ps(bits_as<__m128i>(half)));
  } else if constexpr (L <= 4) {
    auto whole = _mm_cvtph_ps(in_register_of_few(half));
    if constexpr (L == 4) {
      return bits_as<Vec<float, L>>(whole);
    } else {
      return first_of<Vec<float, L>>(_mm_castps_si128(whole));
    }
  }
#elif defined(__aarch64__)
  if constexpr (L == 4) {
    return bits_as<Vec<float, L>>(vcvt_f32_f16(bits_as<float16x4_t>(half)));
  }
#endif
  using U = Vec<uint32_t, L>;
  using F = Vec<float, L>;
  U h = resize<uint32_t, L>(half);
  U magnitude = h & 0x7fffu;
  // Scaling by 2^112 moves the exponent bias and makes subnormals normal.
  U finite = bits_as<U>(bits_as<F>(U(magnitude << 13)) * 0x1p112f);
  U special = (magnitude << 13) | 0x7f800000u;
  U bits = magnitude >= 0x7c00u ? special : finite;
  return bits_as<F>(U(bits | ((h & 0x8000u) << 16)));
}

// binary32 to binary16, to nearest even.
template <int L>
MLX_POOLING_INLINE Vec<uint16_t, L> narrow_float16(Vec<float, L> value) {
#if defined(__AVX512F__)
  if constexpr (L == 16) {
    return bits_as<Vec<uint16_t, L>>(
        _mm512_cvtps_ph(bits_as<__m512>(value), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
#if defined(__F16C__)
  if constexpr (L == 8) {
    return bits_as<Vec<uint16_t, L>>(
        _mm256_cvtps_ph(bits_as<__m256>(value), _MM_FROUND_TO_NEAREST_INT));
  } else if constexpr (L <= 4) {
    __m128 whole;
    if constexpr (L == 4) {
      whole = bits_as<__m128>(value);
    } else {
      whole = _mm_castsi128_ps(in_register_of_few(value));
    }
    return first_of<Vec<uint16_t, L>>(
        _mm_cvtps_ph(whole, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__aarch64__)
  if constexpr (L == 4) {
    return bits_as<Vec<uint16_t, L>>(vcvt_f16_f32(bits_as<float32x4_t>(value)));
  }
#endif
  using U = Vec<uint32_t, L>;
  using F = Vec<float, L>;
  U bits = bits_as<U>(value);
  U magnitude = bits & 0x7fffffffu;
  U normal =
      (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 lines the subnormal's last place up with the float's.
  U subnormal = bits_as<U>(F(bits_as<F>(magnitude) + 0.5f)) - 0x3f000000u;
  U half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? (U{} + 0x7c00u) : half;
  half = magnitude > 0x7f800000u ? (U{} + 0x7e00u) : half;
  half |= (bits >> 16) & 0x8000u;
  return resize<uint16_t, L>(half);
}

// The upper halves of words, which AVX-512 moves without shifting them.
template <int L>
MLX_POOLING_INLINE Vec<uint16_t, L> upper_halves(Vec<uint32_t, L> words) {
#if defined(__AVX512BW__)
  if constexpr (L == 16) {
    using Halves = Vec<uint16_t, 32>;
    constexpr Halves kUpper = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                               23, 25, 27, 29, 31, 1,  3,  5,  7,  9,  11,
                               13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    return bits_as<Vec<uint16_t, L>>(
        _mm512_castsi512_si256(_mm512_permutexvar_epi16(
            bits_as<__m512i>(kUpper), bits_as<__m512i>(words))));
  }
#endif
  return resize<uint16_t, L>(words >> 16);
}

template <int L>
MLX_POOLING_INLINE Vec<float, L> widen_bfloat16(Vec<uint16_t, L> half) {
#if defined(__AVX512BW__)
  if constexpr (L == 16) {
    using Halves = Vec<uint16_t, 32>;
    constexpr Halves kWords = {0, 0,  0, 1,  0, 2,  0, 3,  0, 4, 0,
                               5, 0,  6, 0,  7, 0,  8, 0,  9, 0, 10,
                               0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    return bits_as<Vec<float, L>>(_mm512_maskz_permutexvar_epi16(
        0xaaaaaaaau, bits_as<__m512i>(kWords),
        _mm512_castsi256_si512(bits_as<__m256i>(half))));
  }
#endif
  using U = Vec<uint32_t, L>;
  return bits_as<Vec<float, L>>(U(resize<uint32_t, L>(half) << 16));
}

template <int L>
MLX_POOLING_INLINE Vec<uint16_t, L> narrow_bfloat16(Vec<float, L> value) {
  using U = Vec<uint32_t, L>;
  U bits = bits_as<U>(value);
  U rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  U nan = bits | 0x400000u;
  return upper_halves<L>(value != value ? nan : rounded);
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
