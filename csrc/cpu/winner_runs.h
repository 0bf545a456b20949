#pragma once

#include <array>
#include <bit>

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/memory.h"
#include "cpu/scratch.h"
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

// The lanes that a set has bits for, next to each other.
template <typename V>
MLX_POOLING_INLINE V gathered(uint64_t lanes, V v) {
  auto mask = static_cast<__mmask16>(lanes);
  return bits_as<V>(_mm512_maskz_compress_epi32(mask, bits_as<__m512i>(v)));
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

// For each set of lanes, their numbers as bytes.
inline constexpr auto kNumbersOfLanes = [] {
  std::array<int64_t, 256> numbers{};
  for (unsigned lanes = 0; lanes < numbers.size(); ++lanes) {
    int count = 0;
    for (int64_t lane = 0; lane < 8; ++lane) {
      if (lanes >> lane & 1) {
        numbers[lanes] |= lane << (8 * count++);
      }
    }
  }
  return numbers;
}();

// The lanes that a set has bits for, next to each other.
template <typename V>
MLX_POOLING_INLINE V gathered(uint64_t lanes, V v) {
  auto numbers = bits_as<Vec<uint8_t, 8>>(kNumbersOfLanes[lanes]);
  return bits_as<V>(
      _mm256_permutevar8x32_epi32(bits_as<__m256i>(v), widened(numbers)));
}
#endif

// As many runs at a time as stay in the first level of cache, unless one
// window's may be more.
inline constexpr int64_t kMostListed = 2048;

// Windows along a row, one position apart. Most have the winner of the window
// before: the cotangents of such a run are added up before its winner gets the
// sum. Nothing predicts which runs end with a window, so that they are listed.
template <typename T, typename Offset>
class WinnerRuns {
 public:
#if defined(__AVX2__)
  // Whether so many fill a vector, and 16 bits tell them apart.
  static bool are_of(int64_t channels) {
    return channels >= kLanes && channels <= 1 << 16;
  }

  // Of windows for which winners_run(), `stride` elements apart, of which it
  // takes `channels`.
  WinnerRuns(
      const RowOfTap& row, int64_t channels, int64_t stride, Scratch& scratch)
      : shift_(row.shift),
        reciprocal_(broadcast<uint16_t, kLanes>(row.reciprocal)),
        channels_(channels),
        stride_(stride),
        windows_(std::max<int64_t>(1, kMostListed / channels)),
        winners_(scratch.take<uint16_t>(channels + kLanes)),
        sums_(scratch.take<float>(channels + kLanes)),
        listed_places_(scratch.take<uint32_t>(windows_ * channels)),
        listed_sums_(scratch.take<float>(windows_ * channels)) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lane_numbers_[lane] = lane;
    }
  }

  // Runs of so many windows may be listed at a time.
  int64_t windows() const {
    return windows_;
  }

  MLX_POOLING_INLINE void
  begin(int64_t w, const T* dy, const Offset* offsets) const {
    for_each_vector([&](int64_t slot, int64_t c, uint64_t) MLX_POOLING_LAMBDA {
      store<kLanes>(winners_ + slot, winners(load_taps(offsets + c), w));
      store<kLanes>(sums_ + slot, load<kLanes>(dy + c));
    });
  }

  // Goes on to window w, and lists the runs that ended with the one before,
  // which is the index-th of the list's windows. Returns how many are listed
  // then.
  MLX_POOLING_INLINE int64_t next(
      int64_t w,
      const T* dy,
      const Offset* offsets,
      int64_t index,
      int64_t listed) const {
    for_each_vector(
        [&](int64_t slot, int64_t c, uint64_t lanes) MLX_POOLING_LAMBDA {
          fetch(dy, c);
          fetch(offsets, c);
          auto winner = winners(load_taps(offsets + c), w);
          auto goes_on = same(winner, load<kLanes>(winners_ + slot));
          auto sums = load<kLanes>(sums_ + slot);
          listed = list(
              index, c, load_taps(offsets + c - stride_), sums,
              others(goes_on) & lanes, listed);
          store<kLanes>(
              sums_ + slot, kept_where(goes_on, sums) + load<kLanes>(dy + c));
          store<kLanes>(winners_ + slot, winner);
        });
    return listed;
  }

  // Lists all runs as ended with the window of these offsets.
  MLX_POOLING_INLINE int64_t
  end(const Offset* offsets, int64_t index, int64_t listed) const {
    auto end = [&](int64_t slot, int64_t c, uint64_t lanes) MLX_POOLING_LAMBDA {
      auto sums = load<kLanes>(sums_ + slot);
      listed = list(index, c, load_taps(offsets + c), sums, lanes, listed);
    };
    for_each_vector(end);
    return listed;
  }

  // Of the i-th run that is listed: the sum of its cotangents, the tap that won
  // in its last window, and its number among the elements of the list's
  // windows.
  MLX_POOLING_INLINE float sum(int64_t i) const {
    return listed_sums_[i];
  }
  MLX_POOLING_INLINE uint16_t tap(int64_t i) const {
    return listed_places_[i] & 0xffff;
  }
  MLX_POOLING_INLINE uint16_t element(int64_t i) const {
    return listed_places_[i] >> 16;
  }

 private:
  static constexpr int kLanes = kFullLanes<float>;

  // The last shares channels with the one before it if there are less: its own
  // lanes are those of the bits. Each has a slot for what is kept of it.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each_vector(Visit visit) const {
    constexpr auto kAll = (uint64_t{1} << kLanes) - 1;
    int64_t c = 0;
    for (; c + kLanes <= channels_; c += kLanes) {
      visit(c, c, kAll);
    }
    if (c < channels_) {
      auto last = channels_ - kLanes;
      visit(c, last, kAll & kAll << (c - last));
    }
  }

  // The same channels of a later window, each line once.
  template <typename V>
  MLX_POOLING_INLINE void fetch(const V* values, int64_t c) const {
    constexpr int64_t kSize = sizeof(V);
    if (c * kSize % kLineBytes == 0) {
      auto ahead = positions_ahead(channels_ * kSize) * stride_ * kSize;
      fetch_ahead<kLineBytes, 2>(values + c, ahead);
    }
  }

  MLX_POOLING_INLINE static Shorts load_taps(const Offset* offsets) {
    return resize<uint16_t, kLanes>(load<kLanes>(offsets));
  }

  // A window further on, the same input is one tap less. A gap after each row
  // of taps keeps the last of one from the first of the next.
  MLX_POOLING_INLINE Shorts winners(Shorts taps, int64_t w) const {
    Shorts row = upper_product(taps, reciprocal_) >> shift_;
    return taps + row + broadcast<uint16_t, kLanes>(w);
  }

  MLX_POOLING_INLINE int64_t list(
      int64_t index,
      int64_t c,
      Shorts taps,
      Vec<float, kLanes> sums,
      uint64_t lanes,
      int64_t listed) const {
    auto first = broadcast<uint32_t, kLanes>(index * channels_ + c);
    Vec<uint32_t, kLanes> places =
        (first + lane_numbers_) << 16 | resize<uint32_t, kLanes>(taps);
    store<kLanes>(listed_places_ + listed, gathered(lanes, places));
    store<kLanes>(listed_sums_ + listed, gathered(lanes, sums));
    return listed + std::popcount(lanes);
  }

  uint16_t shift_;
  Shorts reciprocal_;
  Vec<uint32_t, kLanes> lane_numbers_;
  int64_t channels_;
  int64_t stride_;
  int64_t windows_;
  uint16_t* winners_;
  float* sums_;
  uint32_t* listed_places_; // elements (the upper half) and taps
  float* listed_sums_;
#endif
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
