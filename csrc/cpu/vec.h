#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "cpu/inline.h"
#include "cpu/isa.h"
#include "cpu/line.h"

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
// An integer that stands for how far it is from the zero point.
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

template <typename T>
inline constexpr bool is_half =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <typename T>
inline constexpr bool is_quantized = requires(T element) { element.integer; };

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

template <int L, typename T>
MLX_POOLING_INLINE Vec<Arithmetic<T>, L> load(const T* from) {
  if constexpr (is_half<T>) {
    Vec<uint16_t, L> bits;
    std::memcpy(&bits, from, sizeof(bits));
    if constexpr (std::is_same_v<T, Float16>) {
      return widen_float16<L>(bits);
    } else {
      return widen_bfloat16<L>(bits);
    }
  } else if constexpr (is_quantized<T>) {
    Vec<decltype(T::integer), L> integers;
    std::memcpy(&integers, from, sizeof(integers));
    return resize<int32_t, L>(integers);
  } else {
    Vec<Arithmetic<T>, L> value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
}

// As elements of type T are stored.
template <typename T, int L>
MLX_POOLING_INLINE auto stored(Vec<Arithmetic<T>, L> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return narrow_float16<L>(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return narrow_bfloat16<L>(value);
  } else if constexpr (is_quantized<T>) {
    return resize<uint8_t, L>(bits_as<Vec<uint32_t, L>>(value));
  } else {
    return value;
  }
}

// The same of values that were loaded from such elements: none needs to be
// rounded.
template <typename T, int L>
MLX_POOLING_INLINE auto stored_exactly(Vec<Arithmetic<T>, L> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return upper_halves<L>(bits_as<Vec<uint32_t, L>>(value));
  } else {
    return stored<T, L>(value);
  }
}

template <int L, typename T>
MLX_POOLING_INLINE void store(T* to, Vec<Arithmetic<T>, L> value) {
  auto bits = stored<T, L>(value);
  std::memcpy(to, &bits, sizeof(bits));
}

template <int L, typename T>
MLX_POOLING_INLINE void store_exact(T* to, Vec<Arithmetic<T>, L> value) {
  auto bits = stored_exactly<T, L>(value);
  std::memcpy(to, &bits, sizeof(bits));
}

// Asks for the cache line that a loop comes to some iterations later. The
// hardware does so too, but not beyond the end of a page.
inline constexpr uintptr_t kAheadBytes = 3072;

// Positions to the one that far on, of each of which so many bytes are visited.
inline int64_t positions_ahead(int64_t bytes) {
  return static_cast<int64_t>(kAheadBytes) / bytes + 1;
}

// What is so far on that the first level of cache should not hold it yet comes
// to the second.
template <int L, int kLevel = 1, typename T>
MLX_POOLING_INLINE void
fetch_ahead(const T* from, uintptr_t bytes = kAheadBytes) {
  if constexpr (L * sizeof(T) >= 32) {
    auto ahead = reinterpret_cast<uintptr_t>(from) + bytes;
    __builtin_prefetch(reinterpret_cast<const void*>(ahead), 0, 4 - kLevel);
  }
}

// The same for many bytes, which follow those that are asked for before: the
// line that those end in is not asked for again.
template <int kBytes, int kLevel = 1>
MLX_POOLING_INLINE void
fetch_lines_ahead(const void* from, uintptr_t bytes = kAheadBytes) {
  if constexpr (kBytes >= 32) {
    for (int at = 0; at < kBytes; at += kLineBytes) {
      fetch_ahead<kLineBytes, kLevel>(
          static_cast<const char*>(from) + at, bytes);
    }
  }
}

// The same where none follow for a while: the line that the bytes end in, too.
template <int kBytes>
MLX_POOLING_INLINE void fetch_all_ahead(const void* from, uintptr_t bytes) {
  fetch_lines_ahead<kBytes>(from, bytes);
  fetch_ahead<kLineBytes>(static_cast<const char*>(from) + kBytes - 1, bytes);
}

// The same for a line that will be written.
template <int L, typename T>
MLX_POOLING_INLINE void claim_ahead(T* to, uintptr_t bytes) {
  if constexpr (L * sizeof(T) >= 32) {
    auto ahead = reinterpret_cast<uintptr_t>(to) + bytes;
    __builtin_prefetch(reinterpret_cast<void*>(ahead), 1);
  }
}

// Whether so many bytes that are stored at a time are whole cache lines, where
// they begin with one.
template <int64_t kBytes>
inline constexpr bool fills_lines = kBytes % kLineBytes == 0;

// Stores an aligned vector around the caches, if there is an instruction for
// it.
template <typename Bits>
MLX_POOLING_INLINE bool
stored_around_caches(void* to, [[maybe_unused]] const Bits& bits) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(Bits) != 0) {
    return false;
  }
#if defined(__AVX512F__)
  if constexpr (sizeof(Bits) == 64) {
    _mm512_stream_si512(static_cast<__m512i*>(to), bits_as<__m512i>(bits));
    return true;
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(Bits) == 32) {
    _mm256_stream_si256(static_cast<__m256i*>(to), bits_as<__m256i>(bits));
    return true;
  }
#endif
#if defined(__SSE2__)
  if constexpr (sizeof(Bits) == 16) {
    _mm_stream_si128(static_cast<__m128i*>(to), bits_as<__m128i>(bits));
    return true;
  }
#endif
  return false;
}

// Stores a result that lies so many bytes before what is stored some time
// later. One that no cache will hold until it is read goes around them: its
// line need not be read before it is written.
template <typename Bits, typename T>
MLX_POOLING_INLINE void
store_result(T* to, const Bits& bits, uintptr_t ahead, bool around_caches) {
  if (around_caches && stored_around_caches(to, bits)) {
    return;
  }
  claim_ahead<sizeof(Bits) / sizeof(T)>(to, ahead);
  std::memcpy(to, &bits, sizeof(bits));
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

template <typename T, typename V>
MLX_POOLING_INLINE V sum(V a, V b) {
  if constexpr (std::is_same_v<T, Bool>) {
    return a | b;
  } else {
    return a + b;
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
