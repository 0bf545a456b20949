#include "cpu/links.h"

namespace mlx_pooling::cpu {

namespace {

AxisLinks window_links(const Axis& axis) {
  AxisLinks links{{}, axis.in, axis.dilation, 1, {}};
  links.of.reserve(axis.out);
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o);
    links.of.push_back(
        {axis.start(o) + taps.first * axis.dilation, taps.size(), taps.first});
  }
  return links;
}

AxisLinks cover_links(const Axis& axis) {
  AxisLinks links{{}, axis.out, axis.cover_step(), -axis.cover_tap_step(), {}};
  links.of.reserve(axis.in);
  for (int64_t i = 0; i < axis.in; ++i) {
    auto covers = axis.covers(i);
    links.of.push_back(
        {covers.first, covers.count, axis.adaptive ? i : covers.tap});
  }
  for (int64_t o = 0; axis.adaptive && o < axis.out; ++o) {
    links.starts.push_back(axis.start(o));
  }
  return links;
}

} // namespace

Links Links::windows(const Geometry& g) {
  return {
      {window_links(g.axes[0]), window_links(g.axes[1]),
       window_links(g.axes[2])},
      g.axes[1].kernel,
      g.axes[2].kernel};
}

Links Links::covers(const Geometry& g) {
  return {
      {cover_links(g.axes[0]), cover_links(g.axes[1]), cover_links(g.axes[2])},
      g.axes[1].kernel,
      g.axes[2].kernel};
}

} // namespace mlx_pooling::cpu
