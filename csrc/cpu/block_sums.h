#pragma once

#include "cpu/compare.h"
#include "cpu/dispatch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// As many elements as a vector has bytes: what is a byte of each is compared at
// once.
inline constexpr int kBlock = kVectorBytes;
static_assert(kBlock <= 64, "method.cpp asks for rows as long");
using BlockBytes = Vec<uint8_t, kBlock>;

// For which elements of a block a comparison holds.
class BlockMask {
 public:
  MLX_POOLING_INLINE static BlockMask at_most(BlockBytes a, BlockBytes b) {
#if defined(__AVX512BW__)
    return BlockMask(
        _mm512_cmple_epu8_mask(bits_as<__m512i>(a), bits_as<__m512i>(b)));
#else
    return BlockMask(smaller<kBlock>(a, b) == a);
#endif
  }

  MLX_POOLING_INLINE static BlockMask equal(BlockBytes a, BlockBytes b) {
#if defined(__AVX512BW__)
    return BlockMask(
        _mm512_cmpeq_epu8_mask(bits_as<__m512i>(a), bits_as<__m512i>(b)));
#else
    return BlockMask(a == b);
#endif
  }

  // total + v where it holds, of L elements from the block's `first` on.
  template <typename T, int L, typename V>
  MLX_POOLING_INLINE V sum_where(V total, V v, int first) const {
#if defined(__AVX512BW__)
    if constexpr (adds_under_mask<T, L>) {
      return sum_under_mask(total, v, static_cast<__mmask16>(holds_ >> first));
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
  explicit BlockMask(__mmask64 holds) : holds_(holds) {}

  __mmask64 holds_;
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
