#pragma once

#include "cpu/vec.h"
#include "cpu/winners.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Whether there are the instructions for WinnerRuns.
#if defined(__AVX512BW__)
inline constexpr bool kHasRuns = true;
#else
inline constexpr bool kHasRuns = false;
#endif

// The same 16 U channels of windows along a row, one position apart. Most
// have the winner of the window before: the cotangents of such a run are added
// up before its winner gets the sum.
template <typename T, typename Offset, int U>
class WinnerRuns {
 public:
#if defined(__AVX512BW__)
  // Of windows for which winners_run().
  explicit WinnerRuns(const RowOfTap& row)
      : shift_(row.shift),
        reciprocal_(_mm256_set1_epi16(static_cast<int16_t>(row.reciprocal))) {
    for (int u = 0; u < U; ++u) {
      winners_[u] = taps_[u] = _mm256_setzero_si256();
      sums_[u] = _mm512_setzero_ps();
    }
  }

  // Goes on to window w. The bits of the result are the channels whose run has
  // ended before it; what ends before the first window has sum 0.
  MLX_POOLING_INLINE uint64_t
  next(int64_t w, const T* dy, const Offset* offsets) {
    uint64_t ended = 0;
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) {
      auto share = bits_as<__m512>(load<kLanes>(dy + u * kLanes));
      auto tap = load_taps(offsets + u * kLanes);
      // A window further on, the same input is one tap less. A gap after each
      // row of taps keeps the last of one from the first of the next.
      auto row =
          _mm256_srli_epi16(_mm256_mulhi_epu16(tap, reciprocal_), shift_);
      auto winner = _mm256_add_epi16(
          _mm256_add_epi16(tap, row),
          _mm256_set1_epi16(static_cast<int16_t>(w)));
      auto is_new = _mm256_cmpneq_epi16_mask(winner, winners_[u]);
      ended |= static_cast<uint64_t>(is_new) << (u * kLanes);
      keep(u);
      auto sum = _mm512_maskz_mov_ps(_knot_mask16(is_new), sums_[u]);
      sums_[u] = _mm512_add_ps(sum, share);
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
  static constexpr int kLanes = 16;

  MLX_POOLING_INLINE static __m256i load_taps(const Offset* from) {
    auto taps = load<kLanes>(from);
    if constexpr (sizeof(Offset) == 1) {
      return _mm256_cvtepu8_epi16(bits_as<__m128i>(taps));
    } else {
      return bits_as<__m256i>(taps);
    }
  }

  MLX_POOLING_INLINE void keep(int u) {
    store<kLanes>(last_sums_ + u * kLanes, bits_as<Vec<float, 16>>(sums_[u]));
    store<kLanes>(
        last_taps_ + u * kLanes, bits_as<Vec<uint16_t, 16>>(taps_[u]));
  }

  int shift_;
  __m256i reciprocal_;
  __m256i winners_[U]; // unlike for any other input of the row
  __m256i taps_[U];
  __m512 sums_[U];
  alignas(64) float last_sums_[U * kLanes];
  alignas(64) uint16_t last_taps_[U * kLanes];
#endif
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
