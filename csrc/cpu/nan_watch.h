#pragma once

#include <algorithm>

#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

template <typename A, int L>
MLX_POOLING_INLINE bool any_nan(Vec<A, L> v) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<A, float> && L == 16) {
    auto nan = bits_as<__m512>(v);
    return _mm512_cmp_ps_mask(nan, nan, _CMP_UNORD_Q) != 0;
  }
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<A, float> && L == 8) {
    auto nan = bits_as<__m256>(v);
    return _mm256_movemask_ps(_mm256_cmp_ps(nan, nan, _CMP_UNORD_Q)) != 0;
  }
#endif
  auto nan = v != v;
  if constexpr (L == 1) {
    return nan;
  } else {
    uint64_t words[sizeof(nan) / sizeof(uint64_t)];
    std::memcpy(words, &nan, sizeof(nan));
    uint64_t any = 0;
    for (auto word : words) {
      any |= word;
    }
    return any != 0;
  }
}

// Notices a NaN among values at the price of an addition each: it makes a NaN
// of their sum. So do infinities of both signs, and sums that overflow to them,
// which are rare enough to be taken for one. `kPlaces` values are seen side by
// side.
template <typename A, int L, int kPlaces = 4>
class NanWatch {
 public:
  MLX_POOLING_INLINE NanWatch() {
    if constexpr (kNeeded) {
      for (auto& sum : sums_) {
        // Not 0: subnormal values alone are slow to add on some CPUs.
        sum = broadcast<A, L>(1);
      }
    }
  }

  // Neighbouring values see different sums, and need not wait for each other.
  MLX_POOLING_INLINE void see(Vec<A, L> v, int place) {
    if constexpr (kNeeded) {
      sums_[place % kSums] += v;
    }
  }

  // What another saw, too: its sums did not wait for those of this one.
  template <int kOthers>
  MLX_POOLING_INLINE void join(const NanWatch<A, L, kOthers>& other) {
    static_assert(NanWatch<A, L, kOthers>::kSums <= kSums);
    if constexpr (kNeeded) {
      for (int i = 0; i < other.kSums; ++i) {
        sums_[i] += other.sums_[i];
      }
    }
  }

  MLX_POOLING_INLINE bool saw_nan() const {
    if constexpr (kNeeded) {
      auto sum = sums_[0];
      for (int i = 1; i < kSums; ++i) {
        sum += sums_[i];
      }
      return any_nan<A, L>(sum);
    }
    return false;
  }

 private:
  template <typename, int, int>
  friend class NanWatch;
  static constexpr bool kNeeded = std::is_floating_point_v<A>;
  // More would take registers and no longer save any waiting.
  static constexpr int kSums = std::min(kPlaces, 4);

  Vec<A, L> sums_[kSums];
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
