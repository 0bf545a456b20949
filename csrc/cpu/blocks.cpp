#include "cpu/blocks.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// How many blocks make up so many positions, if there are any that do and each
// is at most one longer or shorter than windows of `length`; else 0. Inside of
// a longer one there would be windows, and over a shorter one some would reach.
int64_t even_blocks(int64_t positions, int64_t length) {
  auto count = ceil_div(positions, length + 1);
  return count * (length - 1) <= positions ? count : 0;
}

} // namespace

// Where the last window begins, a block does, if it can: that has no rests.
Blocks::Blocks(
    int64_t size, int64_t length, int64_t first_end, int64_t last_begin)
    : size_(size), first_end_(first_end) {
  auto between = std::max<int64_t>(0, last_begin - first_end);
  auto count = even_blocks(between, length);
  bool is_even = count > 0 || between == 0;
  even_end_ = is_even ? first_end + between : size;
  length_ = count > 0 ? between / count : length;
  longer_ = count > 0 ? between % count : 0;
}

} // namespace mlx_pooling::cpu
