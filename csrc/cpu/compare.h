#pragma once

#include "cpu/element.h"
#include "cpu/vec.h"

// Selection of elements, and what maxima compare.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// v itself, which GCC would otherwise load again, under a mask, where it is
// selected: that is several times slower on some CPUs.
template <typename V>
MLX_POOLING_INLINE V in_register(V v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) >= 16) {
    asm("" : "+v"(v));
  }
#endif
  return v;
}

// v where the mask is set, else 0. Not `mask ? v : 0`, of which GCC makes loads
// under a mask.
template <typename A, int L, typename Mask>
MLX_POOLING_INLINE Vec<A, L> kept(Vec<A, L> v, Mask mask) {
  auto bits = resize_mask<A, L>(mask);
  return bits_as<Vec<A, L>>(decltype(bits)(bits_as<decltype(bits)>(v) & bits));
}

// mask ? a : b. Of single elements without a branch, which nothing predicts.
template <int L, typename Mask, typename V>
MLX_POOLING_INLINE V chosen(Mask mask, V a, V b) {
  if constexpr (L == 1) {
    using Bits = OffsetLane<V, uint8_t>;
    auto bits = static_cast<Bits>(-static_cast<Bits>(mask != 0));
    return bits_as<V>(static_cast<Bits>(
        (bits_as<Bits>(a) & bits) | (bits_as<Bits>(b) & ~bits)));
  } else {
    return mask ? a : b;
  }
}

// Whether there is an instruction that adds L of T where a mask is set, which
// comparing bytes gives.
#if defined(__AVX512BW__)
template <typename T, int L>
inline constexpr bool adds_under_mask =
    std::is_same_v<Arithmetic<T>, float> && L == 16;

template <typename V>
MLX_POOLING_INLINE V sum_under_mask(V total, V v, __mmask16 mask) {
  auto sums = bits_as<__m512>(total);
  return bits_as<V>(
      _mm512_mask_add_ps(sums, mask, sums, bits_as<__m512>(in_register(v))));
}
#endif

// total + v where a and b are equal.
template <typename T, int L, typename V>
MLX_POOLING_INLINE auto sum_where_equal(
    Vec<Arithmetic<T>, L> total, Vec<Arithmetic<T>, L> v, V a, V b) {
#if defined(__AVX512BW__)
  if constexpr (adds_under_mask<T, L> && sizeof(V) == L) {
    auto mask = _mm_cmpeq_epu8_mask(bits_as<__m128i>(a), bits_as<__m128i>(b));
    return sum_under_mask(total, v, mask);
  }
#endif
  return sum<T>(total, kept<Arithmetic<T>, L>(v, a == b));
}

// The smaller of unsigned integers. GCC 12 makes a comparison and a selection
// of it, in spite of the one instruction.
template <int L, typename V>
MLX_POOLING_INLINE V smaller(V a, V b) {
  [[maybe_unused]] constexpr auto kLaneBytes = sizeof(V) / L;
#if defined(__AVX512BW__)
  if constexpr (sizeof(V) == 64 && kLaneBytes == 4) {
    return bits_as<V>(
        _mm512_min_epu32(bits_as<__m512i>(a), bits_as<__m512i>(b)));
  } else if constexpr (sizeof(V) == 64 && kLaneBytes == 2) {
    return bits_as<V>(
        _mm512_min_epu16(bits_as<__m512i>(a), bits_as<__m512i>(b)));
  } else if constexpr (sizeof(V) == 64 && kLaneBytes == 1) {
    return bits_as<V>(
        _mm512_min_epu8(bits_as<__m512i>(a), bits_as<__m512i>(b)));
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && kLaneBytes == 2) {
    return bits_as<V>(
        _mm256_min_epu16(bits_as<__m256i>(a), bits_as<__m256i>(b)));
  } else if constexpr (sizeof(V) == 16 && kLaneBytes == 2) {
    return bits_as<V>(_mm_min_epu16(bits_as<__m128i>(a), bits_as<__m128i>(b)));
  }
  if constexpr (sizeof(V) == 32 && kLaneBytes == 4) {
    return bits_as<V>(
        _mm256_min_epu32(bits_as<__m256i>(a), bits_as<__m256i>(b)));
  } else if constexpr (sizeof(V) == 32 && kLaneBytes == 1) {
    return bits_as<V>(
        _mm256_min_epu8(bits_as<__m256i>(a), bits_as<__m256i>(b)));
  }
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(V) == 16 && kLaneBytes == 1) {
    return bits_as<V>(_mm_min_epu8(bits_as<__m128i>(a), bits_as<__m128i>(b)));
  }
#endif
  return chosen<L>(a < b, a, b);
}

template <typename V, typename Bits>
MLX_POOLING_INLINE V flipped(V v, Bits bits) {
  return bits_as<V>(Bits(bits_as<Bits>(v) ^ bits));
}

// How a value is compared with the largest before it.
enum class Rule {
  exact, // any NaN is the largest
  fast,  // right unless there is a NaN, which is noticed (NanWatch)
};

// Where v takes the maximum over from `best`.
template <Rule kRule, typename V>
MLX_POOLING_INLINE auto replaces(V v, V best) {
  if constexpr (kRule == Rule::exact) {
    return (v > best) | (v != v);
  } else {
    return v > best;
  }
}

// Whether floats are compared to a mask, which selects lanes of any size: bytes
// that go with them take no more instructions, and a quarter of the memory.
#if defined(__AVX512BW__)
template <typename V>
inline constexpr bool compares_to_mask = std::is_same_v<V, Vec<float, 16>>;

template <int kPredicate, typename V>
MLX_POOLING_INLINE __mmask16 compared(V a, V b) {
  return _mm512_cmp_ps_mask(bits_as<__m512>(a), bits_as<__m512>(b), kPredicate);
}

template <typename W>
MLX_POOLING_INLINE W selected(__mmask16 mask, W a, W b) {
  if constexpr (sizeof(W) == 16) {
    return bits_as<W>(
        _mm_mask_blend_epi8(mask, bits_as<__m128i>(b), bits_as<__m128i>(a)));
  } else if constexpr (sizeof(W) == 32) {
    return bits_as<W>(_mm256_mask_blend_epi16(
        mask, bits_as<__m256i>(b), bits_as<__m256i>(a)));
  } else {
    return bits_as<W>(_mm512_mask_blend_epi32(
        mask, bits_as<__m512i>(b), bits_as<__m512i>(a)));
  }
}
#else
template <typename V>
inline constexpr bool compares_to_mask = false;
#endif

// v > best ? a : b, of unsigned integers of any size.
template <typename Lane, int L, typename V, typename W>
MLX_POOLING_INLINE W chosen_where_larger(V v, V best, W a, W b) {
#if defined(__AVX512BW__)
  if constexpr (compares_to_mask<V>) {
    return selected(compared<_CMP_GT_OQ>(v, best), a, b);
  }
#endif
  return chosen<L>(resize_mask<Lane, L>(v > best), a, b);
}

// v == best ? a : the largest.
template <typename Lane, int L, typename V, typename W>
MLX_POOLING_INLINE W kept_where_equal(V v, V best, W a) {
#if defined(__AVX512BW__)
  if constexpr (compares_to_mask<V>) {
    auto largest = broadcast<Lane, L>(static_cast<Lane>(~Lane{0}));
    return selected(compared<_CMP_EQ_OQ>(v, best), a, largest);
  }
#endif
  return a | bits_as<W>(resize_mask<Lane, L>(v != best));
}

#if defined(__AVX512BW__)
template <typename A>
MLX_POOLING_INLINE auto larger_in_512_bits(__m512i v, __m512i best) {
  constexpr bool is_signed = std::is_signed_v<A>;
  if constexpr (std::is_same_v<A, float>) {
    return _mm512_max_ps(bits_as<__m512>(v), bits_as<__m512>(best));
  } else if constexpr (std::is_same_v<A, double>) {
    return _mm512_max_pd(bits_as<__m512d>(v), bits_as<__m512d>(best));
  } else if constexpr (sizeof(A) == 1) {
    return is_signed ? _mm512_max_epi8(v, best) : _mm512_max_epu8(v, best);
  } else if constexpr (sizeof(A) == 2) {
    return is_signed ? _mm512_max_epi16(v, best) : _mm512_max_epu16(v, best);
  } else if constexpr (sizeof(A) == 4) {
    return is_signed ? _mm512_max_epi32(v, best) : _mm512_max_epu32(v, best);
  } else {
    return is_signed ? _mm512_max_epi64(v, best) : _mm512_max_epu64(v, best);
  }
}
#endif

#if defined(__AVX2__)
// Of 8 or 16 bits each.
template <typename A>
MLX_POOLING_INLINE __m256i larger_in_256_bits(__m256i v, __m256i best) {
  constexpr bool is_signed = std::is_signed_v<A>;
  if constexpr (sizeof(A) == 1) {
    return is_signed ? _mm256_max_epi8(v, best) : _mm256_max_epu8(v, best);
  } else {
    return is_signed ? _mm256_max_epi16(v, best) : _mm256_max_epu16(v, best);
  }
}
template <typename A>
MLX_POOLING_INLINE __m128i larger_in_128_bits(__m128i v, __m128i best) {
  constexpr bool is_signed = std::is_signed_v<A>;
  if constexpr (sizeof(A) == 1) {
    return is_signed ? _mm_max_epi8(v, best) : _mm_max_epu8(v, best);
  } else {
    return is_signed ? _mm_max_epi16(v, best) : _mm_max_epu16(v, best);
  }
}
#endif

// v > best ? v : best. GCC 12 knows the one instruction for that, of single
// elements too, except in AVX-512, and there not of shorter vectors either.
template <typename A, int L>
MLX_POOLING_INLINE Vec<A, L> larger(Vec<A, L> v, Vec<A, L> best) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(v) == 64) {
    return bits_as<Vec<A, L>>(
        larger_in_512_bits<A>(bits_as<__m512i>(v), bits_as<__m512i>(best)));
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(A) <= 2 && sizeof(v) == 32) {
    return bits_as<Vec<A, L>>(
        larger_in_256_bits<A>(bits_as<__m256i>(v), bits_as<__m256i>(best)));
  } else if constexpr (sizeof(A) <= 2 && sizeof(v) == 16) {
    return bits_as<Vec<A, L>>(
        larger_in_128_bits<A>(bits_as<__m128i>(v), bits_as<__m128i>(best)));
  }
#endif
  if constexpr (L == 1) {
    return v > best ? v : best;
  } else {
    return chosen<L>(v > best, v, best);
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
