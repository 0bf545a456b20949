#pragma once

#include "cpu/element.h"
#include "cpu/half.h"
#include "cpu/line.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

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

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
