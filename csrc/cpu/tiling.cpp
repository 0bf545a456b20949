#include "cpu/tiling.h"

#include <algorithm>
#include <cmath>

#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

namespace {

// Elements of scratch memory that stay in the second level of cache.
constexpr int64_t kCachedElements = 128 * 1024;
// The second is so many times the first, in which dense rows stay: they are
// gone over many times.
constexpr int64_t kFirstLevel = 16;
// Channels are divided where cache lines are, of elements of four bytes.
constexpr int64_t kLineChannels = 16;
// So many of them are enough for rows of a block to be read at full speed.
constexpr int64_t kNarrow = 4;
// Enough for every thread to have work until the end, where it costs little.
constexpr int64_t kUnits = 32;
// A band repeats what its first windows share with the band before: at most so
// many times as much is its own.
constexpr int64_t kHalos = 4;

int outermost_axis(const Links& links) {
  auto reaches = [](const AxisLinks& axis) {
    return axis.size() > 1 || axis.other_size > 1 || axis.kernel > 1 ||
        axis.some_empty;
  };
  int axis = 0;
  while (axis + 1 < kMaxSpatialAxes && !reaches(links.axes[axis])) {
    ++axis;
  }
  return axis;
}

// Positions that have as much as a band shares with the one before.
int64_t halo(const AxisLinks& axis, bool in_dense_rows) {
  return in_dense_rows
      ? ceil_div(axis.kernel * axis.dense->step, axis.dense->pitch)
      : std::max<int64_t>(
            1, ceil_div(axis.span * axis.size(), axis.other_size));
}

} // namespace

int64_t positions_behind(int axis, const Links& links) {
  int64_t positions = 1;
  for (int i = axis + 1; i < kMaxSpatialAxes; ++i) {
    positions *= links.axes[i].size();
  }
  return positions;
}

Tiling::Tiling(int axis, int64_t batch, int64_t positions, int64_t channels)
    : axis_(axis),
      band_axis_(axis),
      batch_(batch),
      positions_(positions),
      channels_(channels) {}

void Tiling::divide(int64_t halo, Memory memory, int64_t least_units) {
  auto lines = std::max<int64_t>(1, channels_ / kLineChannels);
  auto narrow = std::min(channels_, kNarrow * kLineChannels);
  auto shortest = std::min(positions_, kHalos * halo);
  if (memory.per_position > 0) {
    auto room = kCachedElements / narrow - memory.fixed;
    auto band = std::clamp(room / memory.per_position, shortest, positions_);
    bands_ = ceil_div(positions_, band);
  }
  auto used = memory.fixed + memory.per_position * ceil_div(positions_, bands_);
  auto block = std::max(narrow, kCachedElements / used);
  blocks_ = std::clamp<int64_t>(channels_ / block, 1, lines);
  add_blocks(lines / kNarrow, least_units);
  if (units() < least_units) {
    auto more = ceil_div(least_units, batch_ * blocks_);
    bands_ = std::max(bands_, std::min(more, positions_ / shortest));
  }
}

void Tiling::add_bands(
    int axis, int64_t positions, int64_t halo, int64_t threads) {
  auto bands = std::min(ceil_div(threads, units()), positions / halo);
  if (bands_ == 1 && bands > 1) {
    band_axis_ = axis;
    positions_ = positions;
    bands_ = bands;
  }
}

void Tiling::add_blocks(int64_t most, int64_t units) {
  auto more = ceil_div(units, batch_ * bands_);
  blocks_ = std::max(blocks_, std::min(more, most));
}

Tiling Tiling::sweep(
    const Links& links, int64_t batch, int64_t channels, int64_t threads) {
  auto axis = outermost_axis(links);
  Tiling tiling(axis, batch, links.axes[axis].size(), channels);
  auto& [depth, height, width] = links.axes;
  auto row = std::max(width.size(), width.other_size) + width.kernel;
  Memory memory{0, 4};
  bool in_dense_rows = axis == 2 && width.in_dense_rows(channels);
  if (in_dense_rows) {
    memory.per_position = kFirstLevel * (3 * width.dense->pitch + 1);
  }
  if (axis < 2) {
    memory = {3 * row + height.span * width.size(), 0};
  }
  if (axis < 1) {
    memory.fixed += (depth.span + 1) * height.size() * width.size();
  }
  auto shared = halo(links.axes[axis], in_dense_rows);
  tiling.divide(shared, memory, threads > 1 ? kUnits : 1);
  // Bands of which less is their own and rows of few channels are slow: rather
  // those than a thread without work.
  tiling.add_bands(axis, links.axes[axis].size(), shared, threads);
  if (axis < 1) { // only rows, the first of three passes, are repeated
    auto shared_rows = halo(height, false);
    tiling.add_bands(1, height.size(), ceil_div(shared_rows, 2), threads);
    tiling.repeats_rows_ =
        tiling.band_axis_ != axis && 2 * shared_rows > height.size();
  }
  tiling.add_blocks(channels / kLineChannels, threads);
  return tiling;
}

Tiling Tiling::row_by_row(int64_t outputs, int64_t channels, int64_t threads) {
  // No more units than that: positions are read fastest as a whole.
  constexpr int64_t kForEachThread = 2;
  Tiling tiling(0, outputs, 1, channels);
  if (threads > 1) {
    tiling.add_blocks(
        channels / (kNarrow * kLineChannels), kForEachThread * threads);
  }
  return tiling;
}

Tiling Tiling::winners(const Links& covers, int64_t batch, int64_t channels) {
  // Of fewer for each input, more may be repeated.
  constexpr double kWindows = 0.03;
  auto outermost = outermost_axis(covers);
  auto& along = covers.axes[outermost];
  auto inner = positions_behind(outermost, covers);
  auto windows = static_cast<double>(covers.other_plane()) /
      static_cast<double>(along.size() * inner);
  auto halo = static_cast<int64_t>(std::ceil(
      static_cast<double>(along.kernel) * windows / (windows + kWindows)));
  Tiling tiling(outermost, batch, along.size(), channels);
  tiling.divide(halo, {0, inner}, kUnits);
  tiling.add_bands(outermost, along.size(), halo, max_threads());
  tiling.add_blocks(channels / kLineChannels, max_threads());
  return tiling;
}

Tiling::Unit Tiling::unit(int64_t index) const {
  auto block = index % blocks_;
  auto band = index / blocks_ % bands_;
  auto border = [&](int64_t b) {
    return b == blocks_
        ? channels_
        : channels_ / kLineChannels * b / blocks_ * kLineChannels;
  };
  return {
      index / blocks_ / bands_,
      {positions_ * band / bands_, positions_ * (band + 1) / bands_},
      {border(block), border(block + 1)}};
}

} // namespace mlx_pooling::cpu
