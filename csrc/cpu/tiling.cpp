#include "cpu/tiling.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// What of a unit should stay in the second level of cache.
constexpr int64_t kCacheBytes = 192 * 1024;
// Channels are divided where cache lines are.
constexpr int64_t kLineBytes = 64;
// Enough for every thread to have work until the end.
constexpr int64_t kUnits = 32;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t row_size(const AxisLinks& width) {
  return std::max(width.size(), width.other_size) + width.kernel;
}

// Positions of scratch memory for each channel.
int64_t held(const Links& links, int axis) {
  auto& [depth, height, width] = links.axes;
  auto row = row_size(width);
  auto rows = 3 * row + (axis < 2 ? height.span * width.size() : 0);
  auto planes = axis < 1 ? depth.span * height.size() * width.size() : 0;
  return rows + planes;
}

} // namespace

Tiling::Tiling(
    const Links& links, int64_t batch, int64_t channels, int64_t itemsize)
    : axis(0), batch(batch), bands(1), channels_(channels) {
  auto size_of = [&](int i) {
    return std::max(links.axes[i].size(), links.axes[i].other_size);
  };
  while (axis < 2 && size_of(axis) == 1 && links.axes[axis].kernel == 1) {
    ++axis;
  }
  auto& outermost = links.axes[axis];
  positions_ = outermost.size();
  granule_ = std::max<int64_t>(1, kLineBytes / itemsize);
  // A band repeats what its first window shares with the one before.
  auto longest_bands = positions_ / (4 * outermost.span);
  if (axis == 2) {
    auto band = kCacheBytes / (4 * itemsize * std::min(channels, 2 * granule_));
    bands = ceil_div(positions_, std::max(band, 4 * outermost.span));
  }
  auto per_channel = held(links, axis) / bands * itemsize;
  auto fitting = std::max(2 * granule_, kCacheBytes / per_channel);
  auto block = std::max(granule_, fitting / granule_ * granule_);
  blocks = std::max<int64_t>(1, channels / std::min(block, channels));
  auto granules = std::max<int64_t>(1, channels / granule_);
  blocks = std::min(blocks, granules);
  if (batch * bands * blocks < kUnits) {
    blocks = std::clamp(
        ceil_div(kUnits, batch * bands), blocks,
        std::max(blocks, granules / 2));
  }
  if (batch * bands * blocks < kUnits) {
    auto more = ceil_div(kUnits, batch * blocks);
    bands = std::max(bands, std::min(more, longest_bands));
  }
}

Tiling::Unit Tiling::unit(int64_t index) const {
  auto block = index % blocks;
  auto band = index / blocks % bands;
  auto granules = channels_ / granule_;
  auto border = [&](int64_t b) {
    return b == blocks ? channels_ : granules * b / blocks * granule_;
  };
  return {
      index / blocks / bands,
      {positions_ * band / bands, positions_ * (band + 1) / bands},
      {border(block), border(block + 1)}};
}

} // namespace mlx_pooling::cpu
