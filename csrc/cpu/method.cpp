#include "cpu/method.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "cpu/alike.h"
#include "cpu/kernels.h"
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
//
// Costs are nanoseconds on one CPU with AVX-512, those of axis_by_axis such
// that it is taken where it was faster with AVX2: only their ratios matter.

struct Cost {
  double visit;           // of a vector of outputs
  double tap;             // of one of its taps, where windows are walked
  double visit_alike = 0; // the same of windows that are alike; 0: none are
  double tap_alike = 0;
  double sweep = 0;      // of a vector operation, for each of its elements
  double aside = 0;      // of joining a column to the one before
  double across = 0;     // of joining a vector's lanes
  double several = 0.85; // taps of several vectors at once, each, in taps
  double alone = 1;      // that of one element of few channels, in taps
  double in_common = 0;  // of what not too many channels share, where walked
};

Cost cost_of(Reduction reduction) {
  constexpr Cost sum{
      .visit = 3,
      .tap = 0.55,
      .visit_alike = 2,
      .tap_alike = 0.4,
      .sweep = 0.0195,
      .aside = 0.3,
      .across = 6,
      .alone = 0.65};
  switch (reduction) {
    case Reduction::maximum:
      return {
          .visit = 3.5,
          .tap = 0.52,
          .visit_alike = 2,
          .tap_alike = 0.4,
          .sweep = 0.0195,
          .aside = 0.5,
          .across = 1.5,
          .alone = 1.15};
    case Reduction::winner:
      return {
          .visit = 5.2,
          .tap = 0.6,
          .visit_alike = 3,
          .tap_alike = 0.55,
          .sweep = 0.034,
          .aside = 0.7,
          .across = 4,
          .alone = 1.65};
    case Reduction::divided_gradient: {
      auto cost = sum;
      cost.in_common = 5;
      return cost;
    }
    default:
      return sum;
  }
}

constexpr double kFourVisits = 2.4; // at once, in visits
constexpr double kTwoVisits = 1.7;
constexpr double kConverted = 1;    // such an element, in taps at least
constexpr double kPermuted = 1.3;   // a tap side by side, in taps
constexpr double kFourGroups = 1.2; // at once, in groups
constexpr double kTwoGroups = 1.1;
constexpr double kRowOfGroups = 3; // what a row that is not whole takes besides
constexpr double kShortRun = 0.7;  // a group of rows, in groups
// What any row that is swept takes, however short.
constexpr double kSweptRow = 24;
// A tap is a cotangent, looked at.
constexpr Cost kCover{.visit = 3, .tap = 0.9, .several = 0.6};
constexpr Cost kByAxis{.visit = 1.2, .tap = 0.35}; // of many at once
// A visit is of all of a window's channels.
constexpr Cost kRowByRow{.visit = 100, .tap = 0.6};
constexpr double kPosition = 1.5;  // of one whose channels go alone
constexpr double kWinner = 0.75;   // of a cotangent that finds its input
constexpr double kRunning = 0.2;   // of one in a run of the same winner
constexpr double kEndOfRun = 1.8;  // of the run's sum, for a window of one
constexpr double kTotal = 0.1;     // of clearing and storing its total
constexpr double kShortLane = 0.6; // of the sweep of one
constexpr double kCells = 0.05;    // of storing what a sweep makes
constexpr double kRowsOnly = 0.18; // of one that joins no rows, all the same
constexpr double kScalarRow = 1.5; // of an element without a vector
constexpr double kShortTap = 0.25; // of a short vector
// Of a window's row, besides its vectors, and of joining the lanes of several.
constexpr double kAlongRow = 2.5;
constexpr double kAlongRowOfSeveral = 4.5;
constexpr double kSeveral = 18;
constexpr double kSeveralOfRows = 45;
constexpr double kDense = 1.15; // of an operation in a dense row
constexpr double kThinned = 1;  // of one that is taken from a dense row, or put
constexpr double kStrided = 1.8; // of a position of one that is not dense
// So many wait for each other, with nothing else to do in the meantime.
constexpr double kLongChain = 16;
constexpr double kChainedTap = 1.2;
// Of so many channels, cells leave the first level of cache, and the second.
constexpr int64_t kManyChannels = 32;
constexpr double kUncached = 1.42;
constexpr int64_t kMostChannels = 128;
constexpr double kFarFromCached = 1.8;
// So many, of blocks of channels that a sweep over depth keeps, the second.
constexpr double kMostCells = 160 * 1024;
constexpr int64_t kChannelBlock = 64;
constexpr double kUncachedCells = 1.05;
// Columns of a strip of more channels lie on a page of memory each.
constexpr int64_t kNearChannels = 2048;
constexpr double kFarApart = 1.5;
// Windows of several planes read these from there, which costs less where the
// rows of the next stay, and vectors are as wide as AVX-512's.
constexpr double kPlanes = 1.5;
constexpr double kWidePlanes = 1.3;
constexpr int64_t kMostRows = 64 * 1024; // elements of them
constexpr int64_t kWide = 64;            // bytes
constexpr double kSplit = 1.4; // where a unit reads some of the channels
// And so do so many totals.
constexpr int64_t kMostTotals = 256 * 1024;
constexpr double kUncachedTotals = 2.5;

constexpr int64_t kFloat = 4;   // bytes
constexpr int64_t kVector = 16; // floats
constexpr int64_t kShortVector = 4;
constexpr int64_t kLeastVector = 16; // bytes
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
// Maxima of more channels are read in pieces by a walk, and half as many no
// faster than row by row where windows have so many taps.
constexpr int64_t kFewVectors = 8;
constexpr double kLongWalk = 1024;
// The same of sums, of long ones fewer.
constexpr int64_t kFewVectorsOfSums = 16;
constexpr int64_t kFewVectorsOfLongSums = 12;
constexpr double kLongSum = 64;
// One chain of so many taps would lose precision: of those of a row.
constexpr double kLongestSum = 256;

double longest(const AxisLinks& links) {
  return static_cast<double>(links.longest);
}

double taps(const Links& links) {
  return longest(links.axes[0]) * longest(links.axes[1]) *
      longest(links.axes[2]);
}

// Of those of `from` there are so many for each of `to`.
double ratio(const AxisLinks& links) {
  return static_cast<double>(links.other_size) /
      static_cast<double>(links.size());
}

// Vectors that hold a position's channels.
int64_t vectors(int64_t channels, int64_t lane) {
  auto full = kVector * kFloat / lane;
  auto lanes = channels >= full ? full : channels >= full / 4 ? full / 4 : 1;
  return ceil_div(channels, lanes);
}

// Whether an input is read for several windows.
bool are_shared(const Links& links) {
  auto& [depth, height, width] = links.axes;
  return taps(links) >= 2 * ratio(depth) * ratio(height) * ratio(width);
}

// Of a position's channels, for each of them.
double visits(int64_t channels, int64_t lane) {
  auto all = vectors(channels, lane);
  return (kFourVisits * static_cast<double>(all / 4) +
          kTwoVisits * static_cast<double>(all % 4 / 2) +
          static_cast<double>(all % 2)) /
      static_cast<double>(channels);
}

bool are_alike(const Links& links, int64_t channels, const Cost& cost) {
  auto& [depth, height, width] = links.axes;
  auto alike = alike_windows(width, channels, lanes_side_by_side(kFloat));
  return cost.visit_alike > 0 && alike.size() > 1 &&
      depth.longest * height.longest <= kMostAlikeRows;
}

double walk_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto all = static_cast<double>(vectors(channels, lane));
  auto elements = static_cast<double>(channels);
  if (are_alike(links, channels, cost)) {
    return all * (cost.visit_alike + cost.tap_alike * taps(links)) / elements;
  }
  auto tap = cost.tap * (all > 1 ? cost.several : 1);
  if (channels < kShortVector) {
    tap *= cost.alone;
  }
  auto in_common = channels < kMostChannels ? cost.in_common : 0;
  return visits(channels, lane) * cost.visit +
      (all * tap * taps(links) + in_common) / elements;
}

double row_by_row_cost(const Links& links, int64_t channels, int64_t lane) {
  auto all = static_cast<double>(vectors(channels, lane));
  return (kRowByRow.visit + kRowByRow.tap * all * taps(links)) /
      static_cast<double>(channels);
}

// Channels of which sums are better made row by row. Of several rows, a walk
// makes a sum each, and threads share the windows.
int64_t least_of_sums_by_row(const Links& links) {
  auto& [depth, height, width] = links.axes;
  bool is_alone = depth.size() * height.size() * width.size() == 1;
  bool has_rows = depth.longest * height.longest > 1;
  auto length = has_rows && !is_alone ? longest(width) : taps(links);
  if (length >= kLongestSum) {
    return kVector;
  }
  auto few = length >= kLongSum ? kFewVectorsOfLongSums : kFewVectorsOfSums;
  return few * kVector + 1;
}

// Groups of windows, of which several at once count less.
double groups(int64_t alone, int64_t in_run) {
  return static_cast<double>(alone + in_run % 2) +
      kTwoGroups * static_cast<double>(in_run % 4 / 2) +
      kFourGroups * static_cast<double>(in_run / 4);
}

// Those of a row.
double groups_in_row(const Links& links, const SideBySide& side) {
  auto& [depth, height, width] = links.axes;
  auto row = width.size();
  auto even = static_cast<double>(height.in_step().size()) /
      static_cast<double>(height.size());
  if (side.rows > 0) {
    return even * kShortRun / static_cast<double>(side.rows) + 1 - even;
  }
  if (side.with_cut) {
    auto all = ceil_div(row, side.windows);
    auto alone = groups(2, all - 2) + kRowOfGroups;
    auto in_parts = kShortRun * static_cast<double>(all);
    return side.together > all ? even * in_parts + (1 - even) * alone : alone;
  }
  auto full = side.uncut.size() / side.windows;
  auto rest = side.uncut.size() % side.windows > 0 ? 1 : 0;
  return groups(row - side.uncut.size() + rest, full);
}

double side_by_side_cost(
    const Links& links,
    int64_t channels,
    const SideBySide& side,
    const Cost& cost) {
  // One window at a time is none side by side.
  bool is_alone = side.windows == 1 && are_alike(links, channels, cost);
  if (side.windows < 1 || is_alone) {
    return std::numeric_limits<double>::infinity();
  }
  return groups_in_row(links, side) *
      (cost.visit + kPermuted * cost.tap * taps(links)) /
      static_cast<double>(links.axes[2].size() * channels);
}

// Where there is an AlongRows for as many channels, with the vectors of any
// instruction set: as many as its period hold whole positions.
double along_rows_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto& [depth, height, width] = links.axes;
  auto period = along_rows_period(channels);
  if (width.step > 1 || period * kLeastVector % (channels * lane) != 0) {
    return std::numeric_limits<double>::infinity();
  }
  auto bytes = width.longest * channels * lane;
  auto vectors = static_cast<double>(ceil_div(bytes, kVector * kFloat));
  auto row = kAlongRow;
  auto across = cost.across;
  auto rows = longest(depth) * longest(height);
  if (period > 1) {
    row = kAlongRowOfSeveral;
    across += rows > 1 ? kSeveralOfRows : kSeveral;
  }
  return (cost.visit + (row + cost.tap * vectors) * rows + across) /
      static_cast<double>(channels);
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

double planes_cost(const Links& links, int64_t channels) {
  auto& [depth, height, width] = links.axes;
  if (depth.kernel == 1) {
    return 1;
  }
  auto rows = depth.kernel * (height.kernel + 1);
  bool stay = rows * width.other_size * channels <= kMostRows;
  return stay && kernels().bytes_side_by_side() == kWide ? kWidePlanes
                                                         : kPlanes;
}

double column_by_column_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto& [depth, height, width] = links.axes;
  auto rows = longest(depth) * longest(height);
  auto apart = channels > kNearChannels ? kFarApart : 1;
  return apart * planes_cost(links, channels) * visits(channels, lane) *
      (cost.visit + cost.tap * rows + cost.aside * (longest(width) - 1));
}

double row_cost(
    const AxisLinks& width,
    int64_t channels,
    double operation,
    const Cost& cost) {
  bool in_dense_rows = width.in_dense_rows(channels);
  bool is_narrow = width.origin() && channels < kVector && width.in_blocks();
  if (in_dense_rows || is_narrow) {
    auto kernel = static_cast<uint64_t>(width.kernel);
    auto passes = 2 + std::bit_width(kernel) + std::popcount(kernel);
    auto dense = kDense * static_cast<double>(passes * width.dense->pitch);
    auto moved = width.dense->pitch > 1 ? 1 : ratio(width);
    return operation * (2 * ratio(width) + dense) +
        (in_dense_rows ? kThinned * moved : 0);
  }
  auto join = width.in_blocks() ? 2 * ratio(width) + 1 : longest(width);
  auto row = operation * (2 * ratio(width) + join + 1);
  if (!width.origin() && channels >= kVector) {
    row += kStrided / static_cast<double>(channels);
  } else if (!width.origin() && channels >= kShortVector) {
    auto tap = join > kLongChain ? kChainedTap : kShortTap;
    row += (kScalarRow + tap * join) / kShortVector;
  } else if (!width.origin()) {
    row += kScalarRow + cost.tap * cost.alone * join;
  }
  return row;
}

double item_cost(const AxisLinks& links, double item, double operation) {
  double join = links.block > 0 ? 3 * ratio(links) + 2 : longest(links) + 1;
  return item * std::min(ratio(links), longest(links)) + operation * join;
}

// What a sweep takes besides, where its rows are short.
double short_rows_cost(const Links& links, int64_t channels) {
  auto& [depth, height, width] = links.axes;
  auto rows = std::max(ratio(depth) * ratio(height), 1.0);
  return rows * kSweptRow / static_cast<double>(width.size() * channels);
}

double sweep_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto operation = cost.sweep;
  if (lane < kFloat) {
    operation *= kShortLane;
  }
  if (channels >= kManyChannels) {
    operation *= channels >= kMostChannels ? kFarFromCached : kUncached;
  }
  double element = row_cost(links.axes[2], channels, operation, cost);
  for (int axis : {1, 0}) {
    if (links.axes[axis].kernel > 1) {
      element = item_cost(links.axes[axis], element, operation);
    }
  }
  auto& [depth, height, width] = links.axes;
  auto cells = static_cast<double>(depth.span + 1) *
      static_cast<double>(height.size() * width.size()) *
      static_cast<double>(std::min(channels, kChannelBlock));
  if (depth.kernel > 1 && cells > kMostCells) {
    element *= kUncachedCells;
  }
  bool joins_no_rows = height.kernel == 1 && depth.kernel == 1;
  return element + kCells + (joins_no_rows && width.origin() ? kRowsOnly : 0) +
      short_rows_cost(links, channels);
}

// Where there is a CollectAxisByAxis for such covers, with the blocks of any
// instruction set.
double axis_by_axis_cost(const Links& covers, int64_t channels) {
  constexpr int64_t kLongestBlock = 64;
  auto& [depth, height, width] = covers.axes;
  bool keeps_rows = depth.kernel > 1;
  if ((keeps_rows && !height.in_order) ||
      width.other_size * channels < kLongestBlock) {
    return std::numeric_limits<double>::infinity();
  }
  auto rows = longest(height) + (keeps_rows ? longest(depth) : 0);
  auto join = kByAxis.visit + kByAxis.tap * rows;
  auto hand_out = kByAxis.visit + kByAxis.tap * longest(width);
  if (!width.origin()) {
    auto vectors = static_cast<double>(ceil_div(channels, kVector));
    hand_out = (hand_out * vectors + kPosition) * kVector /
        static_cast<double>(channels);
  }
  return (join * ratio(width) + hand_out) / kVector;
}

double winners_cost(const Links& covers, const Geometry& geometry) {
  auto channels = geometry.channels;
  auto winner = winners_run(geometry)
      ? kRunning + kEndOfRun / longest(covers.axes[2])
      : kWinner;
  auto cost = kTotal +
      winner * ratio(covers.axes[0]) * ratio(covers.axes[1]) *
          ratio(covers.axes[2]);
  auto tiling = Tiling::winners(covers, geometry.batch, channels);
  auto unit = tiling.unit(0);
  auto totals = unit.band.size() * positions_behind(tiling.axis(), covers) *
      unit.channels.size();
  if (unit.channels.size() < channels) {
    cost *= kSplit;
  }
  return totals <= kMostTotals ? cost : cost * kUncachedTotals;
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
    int64_t stored,
    int64_t lane,
    bool has_alike,
    bool has_side_by_side,
    Reduction reduction) {
  for (auto& axis : links.axes) {
    bool matters = reduction == Reduction::winner && axis.some_empty;
    if (matters || axis.other_size == 0) {
      return {Method::walk};
    }
  }
  auto cost = cost_of(reduction);
  if (!has_alike) {
    cost.visit_alike = 0;
  }
  if (stored < lane) {
    cost.alone = std::max(cost.alone, kConverted);
  }
  // Which tap a maximum is takes a lane of its own.
  auto sweep_lane =
      reduction == Reduction::winner ? std::max(lane, kFloat) : lane;
  auto sweep = sweep_cost(links, channels, sweep_lane, cost);
  bool is_large = taps(links) >= kLargeWindow;
  bool is_large_sum = reduction == Reduction::sum && is_large &&
      channels >= least_of_sums_by_row(links);
  auto walk = is_large_sum ? row_by_row_cost(links, channels, lane)
                           : walk_cost(links, channels, lane, cost);
  if (has_side_by_side) {
    auto others = std::min(sweep, walk);
    auto along_rows = is_gradient(reduction)
        ? std::numeric_limits<double>::infinity()
        : along_rows_cost(links, channels, sweep_lane, cost);
    auto side = side_by_side(links, channels, lanes_side_by_side(lane));
    if (side_by_side_cost(links, channels, side, cost) <
        std::min(along_rows, others)) {
      return {Method::side_by_side, side};
    }
    if (along_rows < others) {
      return {Method::along_rows};
    }
  }
  bool is_maximum =
      reduction == Reduction::maximum || reduction == Reduction::winner;
  if (is_maximum && has_quads(links) && has_columns(links, channels, lane)) {
    return {Method::quads_by_column};
  }
  if (has_columns(links, channels, lane) &&
      column_by_column_cost(links, channels, lane, cost) <
          std::min(sweep, walk)) {
    return {Method::column_by_column};
  }
  bool share = are_shared(links);
  if (sweep < walk && (share || !is_large_sum)) {
    return {Method::sweep};
  }
  auto few = kFewVectors * kVector;
  bool has_many =
      taps(links) >= kLongWalk ? channels >= few / 2 : channels > few;
  bool is_large_maximum = is_maximum && is_large && has_many && !share;
  return {is_large_sum || is_large_maximum ? Method::row_by_row : Method::walk};
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
  if (offset_bytes == 1 &&
      axis_by_axis_cost(covers, channels) < std::min(winners, walk)) {
    return {Method::axis_by_axis};
  }
  return {winners < walk ? Method::winners : Method::walk};
}

} // namespace mlx_pooling::cpu
