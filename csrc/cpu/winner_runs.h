#pragma once

#include "cpu/compare.h"
#include "cpu/vec.h"
#include "cpu/winners.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Whether there are the instructions for WinnerRuns.
#if defined(__AVX2__)
inline constexpr bool kHasRuns = true;
#else
inline constexpr bool kHasRuns = false;
#endif

#if defined(__AVX512BW__)
using Shorts = Vec<uint16_t, 16>;
using Same = __mmask16;

MLX_POOLING_INLINE Shorts upper_product(Shorts a, Shorts b) {
  return bits_as<Shorts>(
      _mm256_mulhi_epu16(bits_as<__m256i>(a), bits_as<__m256i>(b)));
}

MLX_POOLING_INLINE Same same(Shorts a, Shorts b) {
  return _mm256_cmpeq_epi16_mask(bits_as<__m256i>(a), bits_as<__m256i>(b));
}

// A bit for each lane that is not.
MLX_POOLING_INLINE uint64_t others(Same same) {
  return static_cast<uint16_t>(~same);
}

MLX_POOLING_INLINE Vec<float, 16> kept_where(Same same, Vec<float, 16> v) {
  return bits_as<Vec<float, 16>>(_mm512_maskz_mov_ps(same, bits_as<__m512>(v)));
}
#elif defined(__AVX2__)
using Shorts = Vec<uint16_t, 8>;
using Same = __m128i;

MLX_POOLING_INLINE Shorts upper_product(Shorts a, Shorts b) {
  return bits_as<Shorts>(
      _mm_mulhi_epu16(bits_as<__m128i>(a), bits_as<__m128i>(b)));
}

MLX_POOLING_INLINE Same same(Shorts a, Shorts b) {
  return _mm_cmpeq_epi16(bits_as<__m128i>(a), bits_as<__m128i>(b));
}

// A bit for each lane that is not.
MLX_POOLING_INLINE uint64_t others(Same same) {
  return 0xff & ~_mm_movemask_epi8(_mm_packs_epi16(same, same));
}

MLX_POOLING_INLINE Vec<float, 8> kept_where(Same same, Vec<float, 8> v) {
  return kept<float, 8>(v, bits_as<Vec<int16_t, 8>>(same));
}
#endif

// The same U vectors of channels of windows along a row, one position apart.
// Most have the winner of the window before: the cotangents of such a run are
// added up before its winner gets the sum.
template <typename T, typename Offset, int U>
class WinnerRuns {
 public:
#if defined(__AVX2__)
  // Of windows for which winners_run().
  explicit WinnerRuns(const RowOfTap& row)
      : shift_(row.shift),
        reciprocal_(broadcast<uint16_t, kLanes>(row.reciprocal)) {}

  // Goes on to window w. The bits of the result are the channels whose run has
  // ended before it; what ends before the first window has sum 0.
  MLX_POOLING_INLINE uint64_t
  next(int64_t w, const T* dy, const Offset* offsets) {
    const auto position = broadcast<uint16_t, kLanes>(w);
    uint64_t ended = 0;
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) {
      auto share = load<kLanes>(dy + u * kLanes);
      Shorts tap = resize<uint16_t, kLanes>(load<kLanes>(offsets + u * kLanes));
      // A window further on, the same input is one tap less. A gap after each
      // row of taps keeps the last of one from the first of the next.
      Shorts row = upper_product(tap, reciprocal_) >> shift_;
      Shorts winner = tap + row + position;
      auto goes_on = same(winner, winners_[u]);
      ended |= others(goes_on) << (u * kLanes);
      keep(u);
      sums_[u] = kept_where(goes_on, sums_[u]) + share;
      winners_[u] = winner;
      taps_[u] = tap;
    }
    return ended;
  }

  // Ends all runs.
  void end() {
    for (int u = 0; u < U; ++u) {
      keep(u);
    }
  }

  // Of a channel's run before the last next() or end(): which tap of its last
  // window won, and the sum of the cotangents.
  MLX_POOLING_INLINE uint16_t tap(int channel) const {
    return last_taps_[channel];
  }
  MLX_POOLING_INLINE float sum(int channel) const {
    return last_sums_[channel];
  }

 private:
  static constexpr int kLanes = kVectorBytes / sizeof(float);

  MLX_POOLING_INLINE void keep(int u) {
    store<kLanes>(last_sums_ + u * kLanes, sums_[u]);
    store<kLanes>(last_taps_ + u * kLanes, taps_[u]);
  }

  uint16_t shift_;
  Shorts reciprocal_;
  Shorts winners_[U] = {}; // unlike for any other input of the row
  Shorts taps_[U] = {};
  Vec<float, kLanes> sums_[U] = {};
  alignas(64) float last_sums_[U * kLanes];
  alignas(64) uint16_t last_taps_[U * kLanes];
#endif
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
