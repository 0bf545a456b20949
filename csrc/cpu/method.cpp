#include "cpu/method.h"

#include <algorithm>
#include <bit>

namespace mlx_pooling::cpu {

namespace {

// The table, by what an output of `to` costs in vector operations:
//
//   walk     product of the windows' sizes       small windows, large strides
//   sweep    sum of what each axis costs         all other sums and maxima
//   winners  so much for each window             gradients of maxima over
//                                                windows that overlap a lot
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

// Of a walk's visit to a tap.
constexpr double kTapCost = 1.5;

double walk_cost(const Links& links) {
  return kTapCost * longest(links.axes[0]) * longest(links.axes[1]) *
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

// What it costs to add one cotangent to a total, element by element.
constexpr double kWinnerCost = 12;
constexpr int64_t kMostTaps = int64_t{1} << 16;

double winners_cost(const Links& covers) {
  return kWinnerCost * ratio(covers.axes[0]) * ratio(covers.axes[1]) *
      ratio(covers.axes[2]);
}

} // namespace

Method method_of_reduction(const Links& links, bool with_taps) {
  for (auto& axis : links.axes) {
    if (!axis.in_order || (with_taps && axis.some_empty)) {
      return Method::walk;
    }
  }
  return sweep_cost(links) < walk_cost(links) ? Method::sweep : Method::walk;
}

Method method_of_scatter(const Links& covers, const Geometry& geometry) {
  bool pays = winners_cost(covers) < walk_cost(covers);
  return pays && geometry.taps() <= kMostTaps ? Method::winners : Method::walk;
}

} // namespace mlx_pooling::cpu
