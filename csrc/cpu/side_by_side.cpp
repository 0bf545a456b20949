#include "cpu/side_by_side.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// Empty unless they are neighbours and begin as far apart each.
SideBySide uncut_windows(const AxisLinks& width) {
  auto repeating = width.of.repeating();
  if (repeating.size() < 2) {
    return {};
  }
  return {0, width.of.step(), repeating};
}

} // namespace

SideBySide
side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes) {
  auto span = (width.kernel - 1) * width.step + 1;
  auto positions = 2 * lanes / channels;
  if (channels > lanes || positions < span) {
    return {};
  }
  auto side = uncut_windows(width);
  if (side.stride > 0) {
    auto reachable = (positions - span) / side.stride + 1;
    side.windows = std::min(lanes / channels, reachable);
  }
  return side;
}

SideBySide
spread_side_by_side(const AxisLinks& width, int64_t channels, int64_t lanes) {
  auto side = uncut_windows(width);
  if (side.stride < (width.kernel - 1) * width.step + 1) {
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
