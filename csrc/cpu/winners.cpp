#include "cpu/winners.h"

#include <algorithm>
#include <bit>

namespace mlx_pooling::cpu {

namespace {

// Runs in narrower windows are too short to pay.
constexpr int64_t kShortestRun = 8;
constexpr int64_t kMostListedTaps = int64_t{1} << 16;

std::vector<int64_t> listed_taps(const Geometry& geometry) {
  auto& [depth, height, width] = geometry.axes;
  std::vector<int64_t> taps;
  for (int64_t d = 0; d < depth.kernel; ++d) {
    for (int64_t h = 0; h < height.kernel; ++h) {
      for (int64_t w = 0; w < width.kernel; ++w) {
        auto row = d * depth.dilation * height.in + h * height.dilation;
        taps.push_back(row * width.in + w * width.dilation);
      }
    }
  }
  taps.push_back(Winners::kNowhere);
  return taps;
}

} // namespace

RowOfTap::RowOfTap(int64_t kernel_width)
    : shift(std::bit_width(static_cast<uint64_t>(kernel_width - 1)) - 1) {
  // With their rows and a position's they are told apart in 16 bits.
  constexpr int64_t kMostTaps = 1 << 15;
  auto scale = int64_t{1} << (16 + shift);
  reciprocal = ceil_div(scale, kernel_width);
  auto excess = reciprocal * kernel_width - scale;
  taps = excess > 0 ? std::min(kMostTaps, scale / excess) : kMostTaps;
}

bool winners_run(const Geometry& geometry) {
  auto& width = geometry.axes[2];
  // That a window has no tap may look like any tap of the next.
  auto has_taps = [&](int64_t o) { return width.taps(o).size() > 0; };
  return width.kernel >= kShortestRun && !width.adaptive && width.stride == 1 &&
      width.dilation == 1 && has_taps(0) && has_taps(width.out - 1) &&
      geometry.taps() <= RowOfTap(width.kernel).taps;
}

Winners::Winners(const Geometry& geometry) : axes_(geometry.axes) {
  if (winners_run(geometry)) {
    row_of_tap.emplace(geometry.axes[2].kernel);
  }
  for (int axis = 0; axis < kMaxSpatialAxes; ++axis) {
    starts[axis].reserve(geometry.axes[axis].out);
    for (int64_t o = 0; o < geometry.axes[axis].out; ++o) {
      starts[axis].push_back(geometry.axes[axis].start(o));
    }
  }
  // Fewer winners are looked up sooner than that.
  auto winners = geometry.outputs() * geometry.channels;
  if (geometry.taps() <= std::min(kMostListedTaps, winners)) {
    taps = listed_taps(geometry);
  } else {
    windows = Links::windows(geometry);
  }
}

Range Winners::within(int axis, Range inputs) const {
  auto in = axes_[axis].in;
  auto dilation = axes_[axis].dilation;
  auto to_last = axes_[axis].span() - 1;
  // Dilated windows may stride over the whole input.
  bool is_dense = dilation == 1;
  auto is_before = [&](int64_t first) {
    bool has_taps = (is_dense ? first + to_last : first) >= 0;
    return !has_taps || std::max<int64_t>(first, 0) < inputs.begin;
  };
  auto is_not_behind = [&](int64_t first) {
    bool has_taps = (is_dense ? first : first + to_last) < in;
    return has_taps && std::min(first + to_last, in - 1) < inputs.end;
  };
  auto& all = starts[axis];
  auto begin = std::partition_point(all.begin(), all.end(), is_before);
  auto end = std::partition_point(begin, all.end(), is_not_behind);
  return {begin - all.begin(), end - all.begin()};
}

} // namespace mlx_pooling::cpu
