#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/spread.h"
#include "cpu/tap_positions.h"
#include "cpu/word.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Where tap 0 of a window lies, or would.
int64_t start(const AxisLinks& axis, int64_t o) {
  const Link link = axis.of[o];
  return link.first - link.tap * axis.step;
}

// Calls visit(i, n, start) for windows i from `begin` to `end`, which are of
// batch element n, with the flat position of the first tap, which may lie
// before the plane.
template <typename Visit>
void for_each_start(
    const MaxTask& task, int64_t begin, int64_t end, Visit visit) {
  auto& [depth, height, width] = task.links.axes;
  for (auto i = begin; i < end;) {
    auto row = i / width.size();
    auto plane = row / height.size();
    auto d = start(depth, plane % depth.size());
    auto h = start(height, row % height.size());
    auto first = (d * height.other_size + h) * width.other_size;
    auto row_begin = row * width.size();
    auto row_end = std::min(end, row_begin + width.size());
    for (; i < row_end; ++i) {
      visit(i, plane / depth.size(), first + start(width, i - row_begin));
    }
  }
}

template <typename Offset>
void indices_of(const MaxTask& task, int64_t begin, int64_t end) {
  constexpr int kLanes = kFullLanes<uint32_t>;
  const auto channels = task.channels;
  const auto* offsets = static_cast<const Offset*>(task.offsets);
  auto* indices = static_cast<uint32_t*>(task.to);
  const TapPositions<Offset> positions(task.links);
  for_each_start(
      task, begin, end,
      [&](int64_t i, int64_t, int64_t start) MLX_POOLING_LAMBDA {
        for_each_lane<kLanes>(
            channels, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
              auto at = i * channels + c;
              auto tap = resize<uint32_t, L>(load<L>(offsets + at));
              auto index = positions.template of<uint32_t, L>(tap) +
                  broadcast<uint32_t, L>(static_cast<uint32_t>(start));
              auto none = broadcast<uint32_t, L>(~uint32_t{0});
              auto no_tap = broadcast<uint32_t, L>(kNoTap<Offset>);
              store<L>(indices + at, chosen<L>(tap == no_tap, none, index));
            });
      });
}

// Calls visit(at, winner, is_there) for each element of windows from `begin` to
// `end`, with where the input's element lies that won it, if one is there.
template <typename Offset, typename Visit>
void for_each_winner(
    const MaxTask& task, int64_t begin, int64_t end, Visit visit) {
  const auto channels = task.channels;
  const auto plane = task.links.other_plane();
  const auto* offsets = static_cast<const Offset*>(task.offsets);
  const TapPositions<Offset> positions(task.links);
  for_each_start(task, begin, end, [&](int64_t i, int64_t n, int64_t start) {
    auto first = n * plane + start;
    for (int64_t c = 0; c < channels; ++c) {
      auto at = i * channels + c;
      auto tap = offsets[at];
      auto position = first + positions.template of<int64_t, 1>(tap);
      visit(at, position * channels + c, tap != kNoTap<Offset>);
    }
  });
}

template <typename Offset, typename T>
void values_of(const MaxTask& task, int64_t begin, int64_t end) {
  const auto* from = static_cast<const T*>(task.from);
  auto* to = static_cast<T*>(task.to);
  for_each_winner<Offset>(
      task, begin, end,
      [=](int64_t at, int64_t winner, bool is_there)
          MLX_POOLING_LAMBDA { to[at] = is_there ? from[winner] : T{0}; });
}

// Gives each winner, which no other window may have, its cotangent.
template <typename Offset, typename T>
void place(const MaxTask& task, int64_t begin, int64_t end) {
  const auto* from = static_cast<const T*>(task.from);
  auto* to = static_cast<T*>(task.to);
  for_each_winner<Offset>(
      task, begin, end,
      [=](int64_t at, int64_t winner, bool is_there) MLX_POOLING_LAMBDA {
        if (is_there) {
          store<1>(to + winner, sum_of_one<T>(load<1>(from + at)));
        }
      });
}

} // namespace

void max_scatter_place(const MaxTask& task, int64_t begin, int64_t end) {
  with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
    with_added_type(
        task.dtype, [&]<typename T>(T) { place<Offset, T>(task, begin, end); });
  });
}

void max_indices(const MaxTask& task, int64_t begin, int64_t end) {
  with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
    indices_of<Offset>(task, begin, end);
  });
}

void max_gather(const MaxTask& task, int64_t begin, int64_t end) {
  with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
    with_word(task.dtype, [&]<typename T>(T) {
      values_of<Offset, T>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
