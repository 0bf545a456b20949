#include "cpu/block_parts.h"

namespace mlx_pooling::cpu {

BlockParts::BlockParts(const AxisLinks& links, Range of) {
  of = trimmed(links, of);
  bool is_empty = of.size() == 0;
  first_begin_ = is_empty ? 0 : links.of[of.begin].first;
  first_end_ = is_empty ? links.other_size : links.last(of.begin);
  last_begin_ = is_empty ? 0 : links.of[of.end - 1].first;
  last_end_ = is_empty ? 0 : links.last(of.end - 1);
}

} // namespace mlx_pooling::cpu
