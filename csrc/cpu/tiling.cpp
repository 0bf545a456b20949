#include "cpu/tiling.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// Elements of scratch memory that stay in the second level of cache.
constexpr int64_t kCached = 48 * 1024;
// Channels are divided where cache lines are, of elements of four bytes.
constexpr int64_t kLine = 16;
// Enough for every thread to have work until the end.
constexpr int64_t kUnits = 32;
// A band repeats what its first windows share with the band before: at most so
// many times as much is its own.
constexpr int64_t kHalos = 4;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

} // namespace

Tiling::Tiling(const Links& links, int64_t batch, int64_t channels)
    : batch_(batch), channels_(channels) {
  auto reaches = [](const AxisLinks& axis) {
    return axis.size() > 1 || axis.other_size > 1 || axis.kernel > 1;
  };
  while (axis_ + 1 < kMaxSpatialAxes && !reaches(links.axes[axis_])) {
    ++axis_;
  }
  positions_ = links.axes[axis_].size();
}

void Tiling::divide(int64_t halo, Memory memory) {
  auto lines = std::max<int64_t>(1, channels_ / kLine);
  auto narrow = std::min(channels_, 2 * kLine);
  auto shortest = std::min(positions_, kHalos * halo);
  if (memory.per_position > 0) {
    auto room = kCached / narrow - memory.fixed;
    auto band = std::clamp(room / memory.per_position, shortest, positions_);
    bands_ = ceil_div(positions_, band);
  }
  auto used = memory.fixed + memory.per_position * ceil_div(positions_, bands_);
  auto block = std::max(narrow, kCached / used);
  blocks_ = std::clamp<int64_t>(channels_ / block, 1, lines);
  if (units() < kUnits) {
    auto more = ceil_div(kUnits, batch_ * bands_);
    blocks_ = std::clamp(more, blocks_, std::max(blocks_, lines / 2));
  }
  if (units() < kUnits) {
    auto more = ceil_div(kUnits, batch_ * blocks_);
    bands_ = std::max(bands_, std::min(more, positions_ / shortest));
  }
}

Tiling Tiling::sweep(const Links& links, int64_t batch, int64_t channels) {
  Tiling tiling(links, batch, channels);
  auto& [depth, height, width] = links.axes;
  auto row = std::max(width.size(), width.other_size) + width.kernel;
  Memory memory{0, 4};
  if (tiling.axis_ < 2) {
    memory = {3 * row + height.span * width.size(), 0};
  }
  if (tiling.axis_ < 1) {
    memory.fixed += (depth.span + 1) * height.size() * width.size();
  }
  tiling.divide(links.axes[tiling.axis_].span, memory);
  return tiling;
}

Tiling Tiling::winners(const Links& covers, int64_t batch, int64_t channels) {
  Tiling tiling(covers, batch, channels);
  int64_t positions = 1;
  for (int axis = tiling.axis_ + 1; axis < kMaxSpatialAxes; ++axis) {
    positions *= covers.axes[axis].size();
  }
  auto& along = covers.axes[tiling.axis_];
  tiling.divide(along.kernel, {0, positions});
  return tiling;
}

Tiling::Unit Tiling::unit(int64_t index) const {
  auto block = index % blocks_;
  auto band = index / blocks_ % bands_;
  auto border = [&](int64_t b) {
    return b == blocks_ ? channels_ : channels_ / kLine * b / blocks_ * kLine;
  };
  return {
      index / blocks_ / bands_,
      {positions_ * band / bands_, positions_ * (band + 1) / bands_},
      {border(block), border(block + 1)}};
}

} // namespace mlx_pooling::cpu
