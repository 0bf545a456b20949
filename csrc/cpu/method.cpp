#include "cpu/method.h"

#include <algorithm>
#include <limits>

#include "cpu/costs.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/quads.h"

namespace mlx_pooling::cpu {

namespace {

// The table, by what an element of `to` costs:
//
//   walk                  product of the window's sizes, less where windows of
//                         2 or 3 columns and few channels are alike
//     small windows, large strides
//   side_by_side          the same
//     small windows of few channels
//   along_rows            the same, of vectors of taps, and what joining costs
//     large windows of few channels, far apart
//   column_by_column      product of all but the width, and the width
//     small windows, one column apart
//   quads_by_column       less than that
//     maxima over windows of 3 x 3 x 3, one apart
//   row_by_row            product of the window's sizes
//     large windows that share little: global ones
//   sweep                 sum of what each axis costs
//     all other sums and maxima
//   axis_by_axis          sum of the window's sizes
//     gradients of maxima over most windows that overlap
//   winners               so much for each window, less for wide ones
//     gradients of maxima over windows that overlap a lot, or of few channels
//   spread                the same for any window
//     gradients over small windows that share no input
//   spread_side_by_side   the same
//     of few channels
//   fill                  so much for each row of a window
//     the same of averages over larger windows: global ones; of single rows
//     also where these share some, but not much: adaptive ones
//   place                 so much for each window
//     the same of maxima
//
// Where no two windows share an input, it is spread, filled or placed, where
// that pays; else the cheapest is taken. Of sums and maxima only walk has an
// answer for windows without a tap whose taps matter, and for inputs without a
// position.

// Inputs of larger windows are better written in their order.
constexpr int64_t kMostSpread = 16;
constexpr int64_t kLeastSpread = 8; // channels, of one window at a time
// Elements of a row of a window that are worth what each row costs; of its only
// row, also where there is one channel; and of an input's row of which any are.
constexpr int64_t kLeastFilled = 320;
constexpr int64_t kLeastFilledAlone = 64;
constexpr int64_t kLeastFilledOfOne = 32;
constexpr int64_t kShortRow = 64;
// Columns that with_columns() has kernels for.
constexpr int64_t kMostColumns = 5;
// Windows of so many taps are worth reducing row by row.
constexpr double kLargeWindow = 16;
// Of these not windows of so few, which are faster walked, in pieces of each
// position: of longer positions only sums in wide vectors, whose pieces are
// larger, and so where there is but one window.
constexpr double kFewTaps = 25;
constexpr double kFewTapsOfWide = 64;
constexpr double kFewTapsAlone = 31;
constexpr double kShortPosition = 2048; // bytes
constexpr double kLongPosition = 8192;
// Of so many, threads find enough to do even where they could share each.
constexpr int64_t kManyWindows = 16;
// Maxima of more channels are read in pieces by a walk, and half as many no
// faster than row by row where windows have so many taps.
constexpr int64_t kFewVectors = 8;
constexpr double kLongWalk = 1024;
// The same of sums, of long rows fewer, of the longest any.
constexpr int64_t kFewVectorsOfSums = 16;
constexpr int64_t kFewVectorsOfLongSums = 12;
constexpr double kLongSum = 64;
constexpr double kLongestSum = 256;

// Whether an input is read for several windows.
bool are_shared(const Links& links) {
  auto& [depth, height, width] = links.axes;
  return taps(links) >= 2 * ratio(depth) * ratio(height) * ratio(width);
}

// Whether windows are large, but better walked; of positions of so many bytes.
bool have_few_taps(const Links& links, int64_t position, bool of_sums) {
  bool is_wide = of_sums && has_wide_vectors();
  auto bytes = static_cast<double>(position);
  bool are_small = taps(links) * bytes <= kBytesPerThread;
  if (links.plane() == 1) {
    return is_wide && taps(links) <= kFewTapsAlone && are_small;
  }
  auto few = has_wide_vectors() ? kFewTapsOfWide : kFewTaps;
  return taps(links) <= few &&
      bytes <= (is_wide ? kLongPosition : kShortPosition) &&
      (are_small || links.plane() >= kManyWindows);
}

// Channels of which sums are better made row by row. Of several rows, a walk
// makes a sum each, and threads share the windows.
int64_t least_of_sums_by_row(const Links& links) {
  auto& [depth, height, width] = links.axes;
  bool is_alone = links.plane() == 1;
  bool has_rows = depth.longest * height.longest > 1;
  auto length =
      has_rows && !is_alone ? static_cast<double>(width.longest) : taps(links);
  if (length >= kLongestSum) {
    return kVector;
  }
  auto few = length >= kLongSum ? kFewVectorsOfLongSums : kFewVectorsOfSums;
  return few * kVector + 1;
}

bool has_columns(const Links& links, int64_t channels, int64_t lane) {
  auto& [depth, height, width] = links.axes;
  return width.origin() && width.step == 1 && width.kernel > 1 &&
      width.kernel <= kMostColumns && !depth.some_empty && !height.some_empty &&
      !width.some_empty && channels * lane >= kVector * kFloat;
}

// Whether windows of these columns are those of MaxQuads.
bool has_quads(const Links& links) {
  return std::all_of(links.axes.begin(), links.axes.end(), [](auto& axis) {
    return axis.origin() && axis.step == 1 && axis.kernel == kQuadKernel;
  });
}

// Rows of its windows, which share nothing.
bool are_worth_filling(const Geometry& geometry) {
  auto& width = geometry.axes[2];
  auto elements = width.kernel * geometry.channels;
  if (width.kernel < geometry.taps()) {
    return elements >= kLeastFilled;
  }
  auto least = geometry.channels == 1 ? kLeastFilledOfOne : kLeastFilledAlone;
  return elements >= least || width.in * geometry.channels <= kShortRow;
}

} // namespace

Choice method_of_reduction(
    const Links& links,
    int64_t channels,
    const Elements& elements,
    Reduction reduction) {
  for (auto& axis : links.axes) {
    bool matters = reduction == Reduction::winner && axis.some_empty;
    if (matters || axis.other_size == 0) {
      return {Method::walk};
    }
  }
  auto cost = cost_of(reduction, elements);
  auto lane = elements.bytes;
  // Which tap a maximum is takes a lane of its own.
  auto sweep_lane =
      reduction == Reduction::winner ? std::max(lane, kFloat) : lane;
  auto sweep = sweep_cost(links, channels, sweep_lane, cost);
  bool is_sum = reduction == Reduction::sum;
  bool is_large = taps(links) >= kLargeWindow &&
      !have_few_taps(links, channels * lane, is_sum);
  bool is_large_sum =
      is_sum && is_large && channels >= least_of_sums_by_row(links);
  auto walk = is_large_sum ? row_by_row_cost(links, channels, lane)
                           : walk_cost(links, channels, lane, cost);
  // Kernels of windows side by side divide at last, all by the same.
  if (reduction != Reduction::divided_gradient) {
    auto others = std::min(sweep, walk);
    auto along_rows = is_gradient(reduction)
        ? std::numeric_limits<double>::infinity()
        : along_rows_cost(links, channels, sweep_lane, cost);
    auto side = side_by_side(links, channels, lanes_side_by_side(lane));
    auto aside = side_by_side_cost(links, channels, side, cost);
    if (aside < std::min(along_rows, others)) {
      return {Method::side_by_side, side, aside};
    }
    if (along_rows < others) {
      return {Method::along_rows, {}, along_rows};
    }
  }
  bool is_maximum =
      reduction == Reduction::maximum || reduction == Reduction::winner;
  bool may_fill = channels * lane >= kVector * kFloat;
  auto column_lane = elements.are_ordered && !may_fill ? kFloat : lane;
  if (has_columns(links, channels, column_lane)) {
    auto columns = column_by_column_cost(links, channels, column_lane, cost);
    if (is_maximum && has_quads(links)) {
      return {Method::quads_by_column, {}, columns};
    }
    if (columns < std::min(sweep, walk)) {
      return {Method::column_by_column, {}, columns};
    }
  }
  bool share = are_shared(links);
  if (sweep < walk && (share || !is_large_sum)) {
    return {Method::sweep, {}, sweep};
  }
  auto few = kFewVectors * kVector;
  bool has_many =
      taps(links) >= kLongWalk ? channels >= few / 2 : channels > few;
  bool is_large_maximum = is_maximum && is_large && has_many && !share;
  bool by_row = is_large_sum || is_large_maximum;
  return {by_row ? Method::row_by_row : Method::walk, {}, walk};
}

std::optional<Choice> method_of_spreading(
    const Links& covers,
    const Geometry& geometry,
    int64_t lane,
    Reduction reduction) {
  bool is_shared = std::any_of(
      covers.axes.begin(), covers.axes.end(),
      [](auto& axis) { return axis.longest > 1; });
  if (is_shared) {
    // Rows of a plane have more in common, which a sweep adds up once.
    auto& [depth, height, width] = covers.axes;
    bool fills = is_gradient(reduction) && width.of.has_runs() &&
        depth.size() * height.size() == 1;
    return fills ? std::optional(Choice{Method::fill}) : std::nullopt;
  }
  if (geometry.taps() > kMostSpread) {
    if (reduction == Reduction::winner) {
      return Choice{Method::place};
    }
    bool fills = covers.axes[2].spacing && are_worth_filling(geometry);
    return fills ? std::optional(Choice{Method::fill}) : std::nullopt;
  }
  if (geometry.channels >= kLeastSpread) {
    return Choice{Method::spread};
  }
  auto side = spread_side_by_side(
      window_links(geometry.axes[2]), geometry.channels,
      lanes_side_by_side(lane));
  if (side.windows > 0) {
    return Choice{Method::spread_side_by_side, side};
  }
  return std::nullopt;
}

Choice method_of_scatter(
    const Links& covers,
    const Geometry& geometry,
    int64_t lane,
    int64_t offset_bytes) {
  auto spreading =
      method_of_spreading(covers, geometry, lane, Reduction::winner);
  // Other offsets can be placed, but not spread.
  if (spreading && (offset_bytes == 1 || spreading->method == Method::place)) {
    return *spreading;
  }
  auto channels = geometry.channels;
  auto winners = winners_cost(covers, geometry);
  auto walk = walk_cost(covers, channels, kFloat, kCover);
  auto cost = std::min(winners, walk); // that of axis_by_axis is no time
  if (offset_bytes == 1 && axis_by_axis_cost(covers, channels) < cost) {
    return {Method::axis_by_axis, {}, cost};
  }
  return {winners < walk ? Method::winners : Method::walk, {}, cost};
}

} // namespace mlx_pooling::cpu
