#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Which parts of blocks the windows of some positions are made of.
class BlockParts {
 public:
  BlockParts(const AxisLinks& links, Range of);

  // Whether some windows end in the block and begin with it or before. They all
  // reach its end if it is the first: that is a rest.
  MLX_POOLING_INLINE bool has_prefixes(Range block) const {
    return block.begin > 0 && first_begin_ <= block.begin &&
        first_end_ < block.end;
  }

  // Whether some begin in the block, or go on behind it.
  MLX_POOLING_INLINE bool has_rests(Range block) const {
    return block.begin == 0 || last_begin_ > block.begin ||
        last_end_ >= block.end;
  }

 private:
  // Positions that the first and the last window begin and end with.
  int64_t first_begin_;
  int64_t first_end_;
  int64_t last_begin_;
  int64_t last_end_;
};

} // namespace mlx_pooling::cpu
