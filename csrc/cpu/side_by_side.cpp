#include "cpu/side_by_side.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// Of rows that stay in the first level of cache, next to their results.
constexpr int64_t kMostElements = 2048;
// What any instruction set reduces at once divides that (kMostGroups).
constexpr int64_t kGroups = 4;

// From a window's first position to its last.
int64_t span(const AxisLinks& width) {
  return (width.kernel - 1) * width.step + 1;
}

// Empty unless they begin as far apart each.
SideBySide uncut_windows(const AxisLinks& width) {
  auto uncut = width.in_step();
  if (uncut.size() == 0) {
    return {};
  }
  return {0, width.of.step(), uncut};
}

// Those of which so many windows, and what these read, are in one group: none
// unless a row is.
int64_t rows_at_once(const Links& links, int64_t windows, int64_t positions) {
  auto& [depth, height, width] = links.axes;
  auto row = width.size();
  if (row > windows) {
    return 0;
  }
  auto extent = width.last(row - 1) + 1 - width.of[0].first;
  if (extent > positions) {
    return 0;
  }
  if (height.in_step().size() < 2 && height.size() > 1) {
    return 1;
  }
  auto next = height.of.step() * width.other_size;
  return std::min(windows / row, (positions - extent) / next + 1);
}

// Whether a group from the row's first window on and one up to its last have
// all that are cut off, and others the rest.
bool cut_go_with_others(const AxisLinks& width, const SideBySide& side) {
  auto windows = side.windows;
  auto uncut = side.uncut;
  auto row = width.size();
  if (windows < 2 || windows >= row || uncut.begin > windows) {
    return false;
  }
  return row <= 2 * windows ||
      (uncut.size() >= windows && row - uncut.end <= windows);
}

} // namespace

SideBySide side_by_side(const Links& links, int64_t channels, int64_t lanes) {
  auto& width = links.axes[2];
  auto positions = 2 * lanes / channels;
  if (channels > lanes || positions < span(width)) {
    return {};
  }
  auto most = lanes / channels;
  auto side = uncut_windows(width);
  bool may_group_all = width.in_order && !width.some_empty;
  side.rows = may_group_all ? rows_at_once(links, most, positions) : 0;
  if (side.rows > 0) {
    side.windows = 1; // of rows that are not whole
  } else if (side.stride > 0) {
    auto reachable = (positions - span(width)) / side.stride + 1;
    side.windows = std::min(most, reachable);
    side.with_cut = may_group_all && cut_go_with_others(width, side);
    auto rows = kMostElements / (width.other_size * channels);
    side.together = std::max<int64_t>(1, rows / kGroups * kGroups);
  }
  return side;
}

SideBySide
spread_side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes) {
  auto side = uncut_windows(width);
  if (channels > lanes || side.stride < span(width)) {
    return side;
  }
  // What lies between a window and the next is written with it.
  auto& [begin, end] = side.uncut;
  auto after_last = width.of[end - 1].first + side.stride;
  end -= after_last > width.other_size ? 1 : 0;
  auto period = side.stride * channels;
  // Where all of a row's are few enough, rows follow each other in one run.
  if (side.uncut.size() * period <= kSpreadVectors * lanes) {
    side.windows = side.uncut.size();
    side.rows = side.windows == width.size() ? 1 : 0;
    return side;
  }
  side.windows = lanes / period;
  // Several vectors overlap less, and share what a group costs.
  auto most = side.windows > 0 ? kSpreadVectors : 0;
  for (int64_t vectors = 2, filled = 1; vectors <= most; ++vectors) {
    auto windows = vectors * lanes / period;
    if (windows <= side.uncut.size() &&
        windows * filled >= side.windows * vectors) {
      side.windows = windows;
      filled = vectors;
    }
  }
  return side;
}

} // namespace mlx_pooling::cpu
