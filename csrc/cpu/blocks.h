#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/inline.h"
#include "geometry.h"

namespace mlx_pooling::cpu {

// Blocks of an axis that large windows are put together from. The first ends
// where the first window does, and the others are so short that a window inside
// of one begins or ends with it: every window is a rest of the block that it
// begins in or a prefix of the one that it ends in, or both and what lies
// between.
class Blocks {
 public:
  Blocks() = default;

  // Of `size` positions and windows of `length`, the first of which ends before
  // `first_end`, while the last begins at `last_begin`.
  Blocks(int64_t size, int64_t length, int64_t first_end, int64_t last_begin);

  MLX_POOLING_INLINE Range at(int64_t i) const {
    if (i < first_end_) {
      return {0, first_end_};
    }
    if (i >= even_end_) {
      return {even_end_, size_};
    }
    auto after = i - first_end_;
    auto n = after < longer_ * (length_ + 1) ? after / (length_ + 1)
                                             : (after - longer_) / length_;
    auto begin = first_end_ + n * length_ + std::min(n, longer_);
    auto end = begin + length_ + (n < longer_ ? 1 : 0);
    return {begin, std::min(end, size_)};
  }

  int64_t longest() const {
    return std::max(first_end_, length_ + (longer_ > 0 ? 1 : 0));
  }

 private:
  int64_t size_ = 0;
  int64_t first_end_ = 0;
  int64_t even_end_ = 0; // of blocks of `length_` or one more
  int64_t length_ = 0;
  int64_t longer_ = 0; // so many come first
};

} // namespace mlx_pooling::cpu
