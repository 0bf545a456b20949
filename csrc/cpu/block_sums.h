#pragma once

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/memory.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// As many elements as a vector has bytes: what is a byte of each is compared at
// once.
inline constexpr int kBlock = kVectorBytes;
static_assert(kBlock <= 64, "method.cpp asks for rows as long");
using BlockBytes = Vec<uint8_t, kBlock>;

// For which elements of a block a comparison holds.
class BlockMask {
 public:
  MLX_POOLING_INLINE static BlockMask at_most(BlockBytes bytes, uint8_t limit) {
#if defined(__AVX512BW__)
    return compared<_MM_CMPINT_LE>(bytes, limit);
#else
    auto limits = broadcast<uint8_t, kBlock>(limit);
    return BlockMask(smaller<kBlock>(bytes, limits) == bytes);
#endif
  }

  MLX_POOLING_INLINE static BlockMask equal(BlockBytes bytes, uint8_t to) {
#if defined(__AVX512BW__)
    return compared<_MM_CMPINT_EQ>(bytes, to);
#else
    return BlockMask(bytes == broadcast<uint8_t, kBlock>(to));
#endif
  }

  // total + v where it holds, of L elements from the block's `first` on.
  template <typename T, int L, typename V>
  MLX_POOLING_INLINE V sum_where(V total, V v, int first) const {
#if defined(__AVX512BW__)
    if constexpr (adds_under_mask<T, L>) {
      return sum_under_mask(total, v, quarters_[first / L]);
    }
    alignas(kBlock) int8_t holds[kBlock];
    _mm512_store_si512(holds, _mm512_movm_epi8(holds_));
#else
    auto* holds = holds_;
#endif
    return sum<T>(total, kept<Arithmetic<T>, L>(v, load<L>(holds + first)));
  }

 private:
#if defined(__AVX512BW__)
  template <int kHow>
  MLX_POOLING_INLINE static BlockMask compared(BlockBytes bytes, uint8_t with) {
    auto all = bits_as<__m512i>(bytes);
    auto quarter = [&](__m128i part) MLX_POOLING_LAMBDA {
      return _mm_cmp_epu8_mask(part, _mm_set1_epi8(with), kHow);
    };
    BlockMask mask;
    mask.holds_ = _mm512_cmp_epu8_mask(all, _mm512_set1_epi8(with), kHow);
    mask.quarters_[0] = quarter(_mm512_castsi512_si128(all));
    mask.quarters_[1] = quarter(_mm512_extracti32x4_epi32(all, 1));
    mask.quarters_[2] = quarter(_mm512_extracti32x4_epi32(all, 2));
    mask.quarters_[3] = quarter(_mm512_extracti32x4_epi32(all, 3));
    return mask;
  }

  // Both, as shifting a mask takes longer than comparing again. The compiler
  // drops the one that is not used.
  __mmask64 holds_;
  __mmask16 quarters_[4];
#else
  template <typename Mask>
  MLX_POOLING_INLINE explicit BlockMask(Mask holds) {
    std::memcpy(holds_, &holds, kBlock);
  }

  // Parts of a vector are loaded faster than they are taken from a register.
  alignas(kBlock) int8_t holds_[kBlock];
#endif
};

// Sums for each element of a block, or of some vectors that it begins with.
template <typename T, int kVectors>
class BlockSums {
 public:
  template <typename From>
  MLX_POOLING_INLINE void add(const From* from, const BlockMask& where) {
    for_each([&](int first, auto& total) MLX_POOLING_LAMBDA {
      total = where.template sum_where<T, kLanes>(
          total, load<kLanes>(from + first), first);
    });
  }

  // Calls visit(first, sums) with vectors of them.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each(Visit visit) {
    for (int v = 0; v < kVectors; ++v) {
      visit(v * kLanes, sums_[v]);
    }
  }

 private:
  static constexpr int kLanes = kFullLanes<Arithmetic<T>>;

  Vec<Arithmetic<T>, kLanes> sums_[kVectors] = {};
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
