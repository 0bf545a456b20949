#include "cpu/links.h"

#include <algorithm>
#include <numeric>

#include "cpu/adaptive.h"

namespace mlx_pooling::cpu {

namespace {

// Windows of more items than this are put together from blocks.
constexpr int64_t kLongestDirect = 5;
constexpr int64_t kShortestBlock = 3;

// Inputs that as many windows cover as cover the one a stride before.
Range evenly_covered(const Axis& axis) {
  if (axis.adaptive) {
    return {0, 0};
  }
  auto begin = std::clamp<int64_t>(axis.span() - 1 - axis.pad_lo, 0, axis.in);
  auto end = std::min(axis.out * axis.stride - axis.pad_lo, axis.in);
  return {begin, std::max(begin, end)};
}

// Whether a table of covers by runs, of which a window begins one and ends one,
// is much shorter than any other.
bool has_few_runs(const Axis& axis, Range even) {
  auto stored = axis.in - LinkTable::skipped(axis.in, even, axis.stride).size();
  return axis.dilation == 1 && stored / 16 > axis.out;
}

template <typename LinkOf>
std::vector<LinkRun> cover_runs(const Axis& axis, LinkOf link_of) {
  std::vector<int64_t> borders{0};
  for (int64_t o = 0; o < axis.out; ++o) {
    auto taps = axis.taps(o);
    for (auto tap : {taps.begin, taps.end}) {
      borders.push_back(axis.start(o) + tap);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<LinkRun> runs;
  for (auto begin : borders) {
    if (begin >= 0 && begin < axis.in) {
      runs.push_back({begin, link_of(begin)});
    }
  }
  return runs;
}

// Facts about blocks. `shortest` is the count of the shortest window that no
// end cuts off, the first one ends before `first_end`, and the last one begins
// at `last_begin`.
void survey_blocks(
    AxisLinks& links, int64_t shortest, int64_t first_end, int64_t last_begin) {
  bool in_blocks = links.step == 1 && links.in_order &&
      links.longest > kLongestDirect && shortest >= kShortestBlock;
  if (in_blocks) {
    links.block = std::min(shortest, links.longest);
    links.blocks = Blocks(links.other_size, links.block, first_end, last_begin);
  }
  links.parts = links.block > 0 ? links.span / (links.block - 1) + 2
                                : links.span / links.step + 1;
}

// All facts about the links, of which those that repeat need no second look.
void survey(AxisLinks& links) {
  links.span = 1;
  auto shortest = links.other_size; // that no end cuts off
  auto repeating = links.of.repeating();
  auto period = links.of.period();
  int64_t first = 0;
  int64_t last = 0;
  std::optional<int64_t> first_end;
  for (int64_t i = 0; i < links.size(); i = links.of.end_of_run(i)) {
    if (i == repeating.begin + 2 * period && i < repeating.end - period) {
      i = repeating.end - period;
    }
    const Link link = links.of[i];
    if (link.count == 0) {
      links.some_empty = true;
      continue;
    }
    links.in_order =
        links.in_order && link.first >= first && links.last(i) >= last;
    first = link.first;
    last = std::max(last, links.last(i));
    first_end = first_end.value_or(last + 1);
    links.span = std::max(links.span, last - first + 1);
    links.longest = std::max(links.longest, link.count);
    if (first > 0 && first + link.count < links.other_size) {
      shortest = std::min(shortest, link.count);
    }
  }
  survey_blocks(links, shortest, first_end.value_or(0), first);
}

// Of adaptive windows, each of which has its tap `tap_step` further on than the
// one before, or of what covers the inputs of such.
void link_adaptively(AxisLinks& links, int64_t size, int64_t tap_step) {
  std::vector<Link> table;
  table.reserve(size);
  const auto other_size = links.other_size; // where no store can change it
  auto shortest = other_size;
  int64_t longest = 0;
  for_each_adaptive_window(
      other_size, size, [&](int64_t i, int64_t first, int64_t count) {
        longest = std::max(longest, count);
        if (first > 0 && first + count < other_size) {
          shortest = std::min(shortest, count);
        }
        table.push_back({first, count, i * tap_step});
      });
  links.longest = links.span = longest;
  survey_blocks(links, shortest, table.front().count, table.back().first);
  links.of = LinkTable(std::move(table));
}

// Whether rows may be padded as far as windows reach: not for windows much
// longer than the row, or far beyond it.
bool may_pad(const Axis& axis) {
  auto most = axis.in + axis.out;
  return !axis.adaptive && axis.span() <= most &&
      (axis.out - 1) * axis.stride <= 2 * most;
}

// The windows that contain input position i, `step` apart. Of adaptive ones,
// the tap counts from where each of them starts.
Link cover(const Axis& axis, int64_t i, int64_t step) {
  auto& [in, out, kernel, stride, dilation, pad_lo, pad_hi, adaptive] = axis;
  if (adaptive) {
    auto first = i * out / in;
    return {first, ceil_div((i + 1) * out, in) - first, i};
  }
  auto reach = i + pad_lo; // o * stride + tap * dilation == reach
  auto lowest = reach + 1 - axis.span();
  auto first = lowest > 0 ? ceil_div(lowest, stride) : 0;
  auto last = std::min(out - 1, reach / stride);
  auto end_of_residues = std::min(last + 1, first + step);
  while (first < end_of_residues && (reach - first * stride) % dilation != 0) {
    ++first;
  }
  if (first >= end_of_residues) {
    return {0, 0, 0};
  }
  auto count = (last - first) / step + 1;
  return {first, count, (reach - first * stride) / dilation};
}

AxisLinks cover_links(const Axis& axis) {
  auto divisor = std::gcd(axis.stride, axis.dilation);
  AxisLinks links{
      .other_size = axis.out,
      .step = axis.dilation / divisor,
      .tap_step = -axis.stride / divisor,
      .kernel = axis.kernel};
  if (may_pad(axis)) {
    auto origin = axis.pad_lo + 1 - axis.span();
    links.dense = {origin, axis.dilation, 1, axis.stride};
  }
  if (axis.dilation == 1 && !axis.adaptive) {
    links.spacing = {-axis.pad_lo, axis.stride};
  }
  auto link_of = [&](int64_t i) { return cover(axis, i, links.step); };
  if (axis.adaptive) {
    auto add = [&](int64_t, int64_t start, int64_t) {
      links.starts.push_back(start);
    };
    for_each_adaptive_window(axis.in, axis.out, add);
  }
  auto even = evenly_covered(axis);
  if (has_few_runs(axis, even)) {
    links.of = LinkTable(axis.in, cover_runs(axis, link_of));
    survey(links);
  } else if (axis.adaptive) {
    link_adaptively(links, axis.in, 1);
  } else {
    links.of = LinkTable(axis.in, even, axis.stride, 1, link_of);
    survey(links);
  }
  return links;
}

} // namespace

int64_t LinkTable::end_of_run(int64_t i) const {
  if (!has_runs()) {
    return i + 1;
  }
  auto next = run_after(i);
  return next == runs_.end() ? size() : next->begin;
}

std::vector<LinkRun>::const_iterator LinkTable::run_after(int64_t i) const {
  return std::partition_point(
      runs_.begin(), runs_.end(), [&](auto& run) { return run.begin <= i; });
}

Link LinkTable::of_run(int64_t i) const {
  auto [begin, link] = *(run_after(i) - 1);
  link.tap += i - begin;
  return link;
}

AxisLinks window_links(const Axis& axis) {
  AxisLinks links{
      .other_size = axis.in,
      .step = axis.dilation,
      .tap_step = 1,
      .kernel = axis.kernel};
  if (may_pad(axis)) {
    links.dense = {-axis.pad_lo, axis.dilation, axis.stride, 1};
  }
  if (axis.adaptive) {
    link_adaptively(links, axis.out, 0);
    return links;
  }
  auto link_of = [&](int64_t o) -> Link {
    auto taps = axis.taps(o);
    return {
        axis.start(o) + taps.begin * axis.dilation, taps.size(), taps.begin};
  };
  links.of = LinkTable(axis.out, axis.uncut(), 1, axis.stride, link_of);
  survey(links);
  return links;
}

Range trimmed(const AxisLinks& links, Range of) {
  auto is_empty = [&](int64_t i) { return links.of[i].count == 0; };
  while (of.size() > 0 && is_empty(of.begin)) {
    ++of.begin;
  }
  while (of.size() > 0 && is_empty(of.end - 1)) {
    --of.end;
  }
  return of;
}

Range linked(const AxisLinks& links, Range of) {
  of = trimmed(links, of);
  if (of.size() == 0) {
    return {0, 1};
  }
  Range range{links.of[of.begin].first, links.last(of.end - 1) + 1};
  for (auto i = of.begin; !links.in_order && i < of.end; ++i) {
    const Link link = links.of[i];
    if (link.count > 0) {
      range.begin = std::min(range.begin, link.first);
      range.end = std::max(range.end, links.last(i) + 1);
    }
  }
  return range;
}

Links Links::windows(const Geometry& g) {
  return {
      {window_links(g.axes[0]), window_links(g.axes[1]),
       window_links(g.axes[2])}};
}

Links Links::covers(const Geometry& g) {
  return {
      {cover_links(g.axes[0]), cover_links(g.axes[1]), cover_links(g.axes[2])}};
}

} // namespace mlx_pooling::cpu
