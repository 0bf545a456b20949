#include "cpu/method.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// The table, by what an output of `to` costs in vector operations:
//
//   walk        product of the window's sizes   small windows, large strides
//   row_by_row  the same                        averages over large windows
//                                               that share little: global ones
//   sweep       sum of what each axis costs     all other sums and maxima
//   winners     so much for each window         gradients of maxima over
//                                               windows that overlap a lot
//
// The cheapest is taken, except that only walk has an answer for windows
// without a tap whose taps matter, for links that are out of order (gradients
// of strided dilation) and for windows of more taps than a table should have.

double longest(const AxisLinks& links) {
  int64_t count = 0;
  for (const Link& link : links.of) {
    count = std::max(count, link.count);
  }
  return static_cast<double>(count);
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

double row_cost(const AxisLinks& width) {
  auto join = width.in_blocks() ? 4 * ratio(width) + 3 : longest(width);
  return 2 * ratio(width) + join + 1;
}

double item_cost(const AxisLinks& links, double item) {
  double join = links.block > 0 ? 3 * ratio(links) + 2 : longest(links) + 1;
  return item * ratio(links) + join;
}

double sweep_cost(const Links& links) {
  double cost = row_cost(links.axes[2]);
  for (int axis : {1, 0}) {
    if (links.axes[axis].kernel > 1) {
      cost = item_cost(links.axes[axis], cost);
    }
  }
  return cost;
}

// What it costs to add one cotangent to a total, element by element, besides
// clearing and storing totals.
constexpr double kWinnerCost = 40;
constexpr int64_t kMostTaps = int64_t{1} << 16;

// Sums of so many taps lose precision as one chain; channels that fill vectors.
constexpr double kLargeWindow = 16;
constexpr int64_t kWideChannels = 16;

// How much more a walk costs whose vectors the channels do not fill; those of
// a sweep along neighbouring windows, and single elements, lose nothing.
double unfilled(int64_t channels) {
  return std::max(
      1.0, static_cast<double>(kWideChannels) / static_cast<double>(channels));
}

double winners_cost(const Links& covers) {
  return 2 +
      kWinnerCost * ratio(covers.axes[0]) * ratio(covers.axes[1]) *
      ratio(covers.axes[2]);
}

} // namespace

Method
method_of_reduction(const Links& links, int64_t channels, Reduction reduction) {
  for (auto& axis : links.axes) {
    if (!axis.in_order || (reduction == Reduction::winner && axis.some_empty)) {
      return Method::walk;
    }
  }
  // What a walk's visit to a tap costs: maxima look for NaN.
  bool is_sum = reduction == Reduction::sum || reduction == Reduction::gradient;
  auto tap = is_sum ? 0.75 : 1.5;
  if (links.axes[2].origin) {
    tap *= unfilled(channels);
  }
  if (sweep_cost(links) < tap * taps(links)) {
    return Method::sweep;
  }
  bool is_large = reduction == Reduction::sum && taps(links) >= kLargeWindow &&
      channels >= kWideChannels;
  return is_large ? Method::row_by_row : Method::walk;
}

Method method_of_scatter(const Links& covers, const Geometry& geometry) {
  bool pays = winners_cost(covers) < taps(covers) * unfilled(geometry.channels);
  return pays && geometry.taps() <= kMostTaps ? Method::winners : Method::walk;
}

} // namespace mlx_pooling::cpu
