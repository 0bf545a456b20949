#include "cpu/links.h"

#include <algorithm>

namespace mlx_pooling::cpu {

namespace {

// Windows of more items than this are put together from blocks.
constexpr int64_t kLongestDirect = 5;
constexpr int64_t kShortestBlock = 3;

// A block as long as the shortest window that no end cuts off, so that every
// window reaches over some block's end.
int64_t block_of(const AxisLinks& links) {
  int64_t longest = 0;
  int64_t shortest = links.other_size;
  for (const Link& link : links.of) {
    auto end = link.first + link.count;
    longest = std::max(longest, link.count);
    if (link.count > 0 && link.first > 0 && end < links.other_size) {
      shortest = std::min(shortest, link.count);
    }
  }
  bool in_blocks = links.step == 1 && links.in_order &&
      longest > kLongestDirect && shortest >= kShortestBlock;
  return in_blocks ? std::min(shortest, longest) : 0;
}

void survey(AxisLinks& links) {
  links.span = 1;
  links.in_order = true;
  links.some_empty = false;
  int64_t first = 0;
  int64_t last = 0;
  for (int64_t i = 0; i < links.size(); ++i) {
    const Link& link = links.of[i];
    if (link.count == 0) {
      links.some_empty = true;
      continue;
    }
    links.in_order =
        links.in_order && link.first >= first && links.last(i) >= last;
    first = link.first;
    last = links.last(i);
    links.span = std::max(links.span, last - first + 1);
  }
  links.block = block_of(links);
  links.parts = links.block > 0 ? links.span / links.block + 2
                                : links.span / links.step + 1;
}

// Whether rows may be padded as far as windows reach: not for windows much
// longer than the row.
bool may_pad(const Axis& axis) {
  auto span = axis.dilation * (axis.kernel - 1);
  return axis.stride == 1 && !axis.adaptive && span <= axis.in + axis.out;
}

AxisLinks window_links(const Axis& axis) {
  AxisLinks links{
      .other_size = axis.in,
      .step = axis.dilation,
      .tap_step = 1,
      .kernel = axis.kernel};
  if (may_pad(axis)) {
    links.origin = -axis.pad_lo;
  }
  links.of.reserve(axis.out);
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o);
    links.of.push_back(
        {axis.start(o) + taps.first * axis.dilation, taps.size(), taps.first});
  }
  survey(links);
  return links;
}

AxisLinks cover_links(const Axis& axis) {
  AxisLinks links{
      .other_size = axis.out,
      .step = axis.cover_step(),
      .tap_step = -axis.cover_tap_step(),
      .kernel = axis.kernel};
  if (may_pad(axis)) {
    links.origin = axis.pad_lo - axis.dilation * (axis.kernel - 1);
  }
  links.of.reserve(axis.in);
  for (int64_t i = 0; i < axis.in; ++i) {
    auto covers = axis.covers(i);
    links.of.push_back(
        {covers.first, covers.count, axis.adaptive ? i : covers.tap});
  }
  for (int64_t o = 0; axis.adaptive && o < axis.out; ++o) {
    links.starts.push_back(axis.start(o));
  }
  survey(links);
  return links;
}

} // namespace

Range linked(const AxisLinks& links, Range of) {
  Range range{links.other_size, 0};
  for (auto i = of.begin; i < of.end; ++i) {
    if (links.of[i].count > 0) {
      range.begin = std::min(range.begin, links.of[i].first);
      range.end = std::max(range.end, links.last(i) + 1);
    }
  }
  return range.size() > 0 ? range : Range{0, 1};
}

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
