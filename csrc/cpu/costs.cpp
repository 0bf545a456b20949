#include "cpu/costs.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "cpu/alike.h"
#include "cpu/kernels.h"

namespace mlx_pooling::cpu {

namespace {

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
constexpr Cost kByAxis{.visit = 1.2, .tap = 0.35}; // of many at once
// A visit is of all of a window's channels.
constexpr Cost kRowByRow{.visit = 100, .tap = 0.6};
constexpr double kPosition = 1.5; // of one whose channels go alone
constexpr double kWinner = 0.75;  // of a cotangent that finds its input
constexpr double kRunning = 0.2;  // of one in a run of the same winner
constexpr double kEndOfRun = 1.8; // of the run's sum, for a window of one
constexpr double kTotal = 0.1;    // of clearing and storing its total
// Of the sweep of lanes of two bytes, and of one.
constexpr double kShortLane = 0.6;
constexpr double kShortestLane = 0.3;
constexpr double kCells = 0.05;      // of storing what a sweep makes
constexpr double kRowsOnly = 0.18;   // of one that joins no rows, all the same
constexpr double kScalarRow = 1.5;   // of an element without a vector
constexpr double kShortTap = 0.25;   // of a short vector
constexpr double kShortestTap = 0.5; // of less than fills any register
// Of a window's row, besides its vectors, and of joining the lanes of several.
constexpr double kAlongRow = 2.5;
constexpr double kAlongRowOfSeveral = 4.5;
constexpr double kSeveral = 18;
constexpr double kSeveralOfRows = 45;
constexpr double kDense = 1.15; // of an operation in a dense row
// Of one that is taken from a dense row, or put, and of a vector of them.
constexpr double kThinned = 1;
constexpr double kThinnedVector = 0.5;
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
// rows of the next stay, and vectors are wide.
constexpr double kPlanes = 1.5;
constexpr double kWidePlanes = 1.3;
constexpr int64_t kMostRows = 64 * 1024; // elements of them
constexpr double kSplit = 1.4; // where a unit reads some of the channels
// And so do so many totals.
constexpr int64_t kMostTotals = 256 * 1024;
constexpr double kUncachedTotals = 2.5;

constexpr int64_t kShortVector = 4;
constexpr int64_t kLeastVector = 16; // bytes

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

double longest(const AxisLinks& links) {
  return static_cast<double>(links.longest);
}

// Vectors that hold a position's channels.
int64_t vectors(int64_t channels, int64_t lane, bool halves = false) {
  auto full = kVector * kFloat / lane;
  if (channels >= full) {
    return ceil_div(channels, full);
  }
  if (halves && channels >= kShortVector) { // the fewest are widened
    auto lanes = std::bit_floor(static_cast<uint64_t>(channels));
    return ceil_div(channels, static_cast<int64_t>(lanes));
  }
  return ceil_div(channels, channels >= full / 4 ? full / 4 : 1);
}

// Of a position's channels, for each of them.
double visits(int64_t channels, int64_t all) {
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

double planes_cost(const Links& links, int64_t channels) {
  auto& [depth, height, width] = links.axes;
  if (depth.kernel == 1) {
    return 1;
  }
  auto rows = depth.kernel * (height.kernel + 1);
  bool stay = rows * width.other_size * channels <= kMostRows;
  return stay && has_wide_vectors() ? kWidePlanes : kPlanes;
}

// Lanes of the vectors that each position's channels are visited in, where they
// go alone: see for_each_lane().
int64_t lanes_alone(int64_t channels, int64_t lane) {
  auto full = kVector * kFloat / lane;
  for (auto lanes : {full, full / 4, kShortVector}) {
    if (channels >= lanes && lanes >= kShortVector) {
      return lanes;
    }
  }
  return 1;
}
double row_cost(
    const AxisLinks& width,
    int64_t channels,
    int64_t lane,
    double operation,
    const Cost& cost) {
  auto lanes = static_cast<double>(lanes_alone(channels, lane));
  bool in_dense_rows = width.in_dense_rows(channels);
  bool is_narrow = width.origin() && channels < kVector && width.in_blocks();
  if (in_dense_rows || is_narrow) {
    auto kernel = static_cast<uint64_t>(width.kernel);
    auto passes = 2 + std::bit_width(kernel) + std::popcount(kernel);
    auto dense = kDense * static_cast<double>(passes * width.dense->pitch);
    auto moved = width.dense->pitch > 1 ? 1 : ratio(width);
    auto thinned = channels < kShortVector ? kThinned : kThinnedVector / lanes;
    return operation * (2 * ratio(width) + dense) +
        (in_dense_rows ? thinned * moved : 0);
  }
  auto join = width.in_blocks() ? 2 * ratio(width) + 1 : longest(width);
  auto row = operation * (2 * ratio(width) + join + 1);
  if (!width.origin() && channels * lane >= kVector * kFloat) {
    row += kStrided / static_cast<double>(channels);
  } else if (!width.origin() && channels >= kShortVector) {
    bool is_short = channels * lane < kLeastVector;
    auto of_few = is_short ? kShortestTap : kShortTap;
    auto tap = join > kLongChain ? kChainedTap : of_few;
    row += (kScalarRow + tap * join) / lanes;
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

} // namespace

Cost cost_of(Reduction reduction, const Elements& elements) {
  auto cost = cost_of(reduction);
  if (!elements.has_alike) {
    cost.visit_alike = 0;
  }
  cost.halves = elements.are_ordered;
  if (elements.is_widened) {
    cost.alone = std::max(cost.alone, kConverted);
  }
  return cost;
}

bool has_wide_vectors() {
  return kernels().bytes_side_by_side() == 64;
}

double taps(const Links& links) {
  return longest(links.axes[0]) * longest(links.axes[1]) *
      longest(links.axes[2]);
}

double ratio(const AxisLinks& links) {
  return static_cast<double>(links.other_size) /
      static_cast<double>(links.size());
}

double walk_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto count = vectors(channels, lane, cost.halves);
  auto all = static_cast<double>(count);
  auto elements = static_cast<double>(channels);
  if (are_alike(links, channels, cost)) {
    return all * (cost.visit_alike + cost.tap_alike * taps(links)) / elements;
  }
  auto tap = cost.tap * (all > 1 ? cost.several : 1);
  if (channels < kShortVector) {
    tap *= cost.alone;
  }
  auto in_common = channels < kMostChannels ? cost.in_common : 0;
  return visits(channels, count) * cost.visit +
      (all * tap * taps(links) + in_common) / elements;
}

double row_by_row_cost(const Links& links, int64_t channels, int64_t lane) {
  auto all = static_cast<double>(vectors(channels, lane));
  return (kRowByRow.visit + kRowByRow.tap * all * taps(links)) /
      static_cast<double>(channels);
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

double column_by_column_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto& [depth, height, width] = links.axes;
  auto rows = longest(depth) * longest(height);
  auto apart = channels > kNearChannels ? kFarApart : 1;
  return apart * planes_cost(links, channels) *
      visits(channels, vectors(channels, lane)) *
      (cost.visit + cost.tap * rows + cost.aside * (longest(width) - 1));
}

double sweep_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost) {
  auto scale = lane == 1 ? kShortestLane : lane < kFloat ? kShortLane : 1;
  auto operation = cost.sweep * scale;
  if (channels >= kManyChannels) {
    operation *= channels >= kMostChannels ? kFarFromCached : kUncached;
  }
  double element = row_cost(links.axes[2], channels, lane, operation, cost);
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
  return element + scale * kCells +
      (joins_no_rows && width.origin() ? kRowsOnly : 0) +
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

} // namespace mlx_pooling::cpu
