#pragma once

#include <algorithm>

#include "cpu/inline.h"
#include "cpu/links.h"
#include "cpu/scratch.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// The last K columns that neighbouring windows have in common, of all channels
// or so many as fit the first level of cache. All that it does is inlined,
// or a store to a column could change where the others are.
template <typename Op, int K>
class ColumnRing {
 public:
  using Cells = typename Op::Cells;

  // `elements` of each column.
  ColumnRing(int64_t elements, Scratch& scratch) : elements_(elements) {
    columns_[0] = Op::take(scratch, K * elements);
    for (int k = 1; k < K; ++k) {
      columns_[k] = columns_[k - 1] + elements;
    }
  }

  // Replaces the oldest by one to be written, and returns that.
  MLX_POOLING_INLINE Cells next() {
    auto oldest = columns_[0];
    for (int k = 1; k < K; ++k) {
      columns_[k - 1] = columns_[k];
    }
    columns_[K - 1] = oldest;
    return oldest;
  }

  // Replaces it by one beyond the input.
  MLX_POOLING_INLINE void next_outside() {
    const auto newest = next();
    for (int64_t j = 0; j < elements_; ++j) {
      Op::template write<1>(newest + j, Op::template outside<1>());
    }
  }

  MLX_POOLING_INLINE Cells operator[](int k) const {
    return columns_[k];
  }

 private:
  int64_t elements_;
  Cells columns_[K]; // the oldest first
};

// Calls visit(block) for blocks of channels of which a ring, with so many
// elements for each, leaves some of the first level of cache to what is read.
// The last may overlap the one before.
template <typename Op, typename Visit>
void for_each_ringed_block(int64_t channels, int64_t elements, Visit visit) {
  constexpr int64_t kRingBytes = 20 * 1024;
  constexpr int64_t kLineChannels = 64; // of any type
  auto lines = ceil_div(channels, kLineChannels);
  auto blocks = ceil_div(channels * elements * Op::kCellBytes, kRingBytes);
  auto size = std::min(channels, ceil_div(lines, blocks) * kLineChannels);
  for (int64_t c = 0; c < channels; c += size) {
    auto end = std::min(c + size, channels);
    visit(Range{end - size, end});
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
