#include "metal/lanes.h"

#include <algorithm>

#include "metal/launches.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

// One of the launches: with as many lanes to an output, and slices to read or
// to write.
struct Step {
  int lanes;
  int64_t slices;
  bool reads_slices;
};

std::vector<Step> steps_of(Split split) {
  if (split.slices == 1) {
    return {{split.lanes, 1, false}};
  }
  return {
      {split.lanes, split.slices, false},
      {lanes_for(split.slices), split.slices, true}};
}

int64_t outputs(const Geometry& g) {
  return g.outputs() * g.channels;
}

mx::Shape slices_shape(const Geometry& g, int64_t slices) {
  return {
      static_cast<mx::ShapeElem>(slices),
      static_cast<mx::ShapeElem>(outputs(g))};
}

// The elements that a lane looks at, or counts to beyond the last of its taps.
int64_t reach(const Geometry& g, Step step) {
  if (step.reads_slices) {
    return (step.slices + step.lanes) * outputs(g);
  }
  auto x = layouts(g).x;
  int64_t elements = step.slices + step.lanes;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    elements += window_extent(g.axes[i], 1) * x.step[i];
  }
  return elements;
}

Launch step_launch(
    const char* name,
    std::vector<std::string> arguments,
    const Geometry& g,
    Step step,
    int width,
    std::vector<Buffer> buffers) {
  arguments.push_back(index_type(g, 1, reach(g, step)));
  arguments.push_back(std::to_string(width));
  arguments.push_back(std::to_string(step.lanes));
  auto launch =
      make_launch(instantiation(name, arguments), g, std::move(buffers));
  launch.params.slices = step.slices;
  launch.params.slice_elements = outputs(g);
  set(launch, Constant::from_slices, step.reads_slices);
  auto& [d, h, w] = g.axes;
  set(launch, Constant::clip_rows, d.leaves_input() || h.leaves_input());
  set(launch, Constant::clip_columns, w.leaves_input());
  return launch;
}

// Whole simdgroups, each of all lanes of some neighbouring vectors. Results of
// several slices are side by side along W.
void add(Plan& plan, Launch launch, const Geometry& g, Step step, int width) {
  auto& [d, h, w] = g.axes;
  auto groups = ceil_div(g.channels / width, kLanes / step.lanes);
  auto slices = step.reads_slices ? 1 : step.slices;
  launch.params.results = {{0, 0, 0}, {d.out, h.out, w.out * slices}};
  append(plan, launches(std::move(launch), g.batch, groups * kLanes, {1, 1}));
}

} // namespace

Plan plan_max_lanes(
    const Geometry& g,
    Split split,
    Operand x,
    Operand y,
    const Operand* offsets) {
  Plan plan;
  std::vector<Operand> operands{x, y};
  if (offsets != nullptr) {
    operands.push_back(*offsets);
  }
  auto width = vector_width(g.channels, operands);
  std::vector<Buffer> results{{1, Access::write}, {2, Access::write}};
  std::vector<Buffer> slices = results;
  if (split.slices > 1) {
    auto shape = slices_shape(g, split.slices);
    slices = {{kFirstTemporary, Access::write}, {kNoArray, Access::write}};
    plan.temporaries.push_back({x.dtype, shape});
    if (offsets != nullptr) {
      slices[1].array = kFirstTemporary + 1;
      plan.temporaries.push_back({offsets->dtype, shape});
    }
  }
  for (auto step : steps_of(split)) {
    auto& to = step.reads_slices ? results : slices;
    auto from = step.reads_slices ? slices[0].array : 0;
    auto taps = step.reads_slices ? slices[1].array : kNoArray;
    auto launch = step_launch(
        "max_pool_lanes",
        {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar"}, g,
        step, width, {{from}, to[0], to[1], {taps}});
    set(launch, Constant::with_offsets, offsets != nullptr);
    set(launch, Constant::with_taps, taps != kNoArray);
    set(launch, Constant::minimum, g.minimum);
    add(plan, std::move(launch), g, step, width);
  }
  return plan;
}

Plan plan_avg_lanes(
    const Geometry& g, Split split, Operand x, Averaging averaging, Operand y) {
  Plan plan;
  Operand sums{average_sum_dtype(y.dtype)};
  if (split.slices > 1) {
    plan.temporaries.push_back({sums.dtype, slices_shape(g, split.slices)});
  }
  for (auto step : steps_of(split)) {
    bool is_last = step.reads_slices || split.slices == 1;
    auto from = step.reads_slices ? sums : x;
    auto to = is_last ? y : sums;
    auto width = vector_width(g.channels, summed(from, to));
    auto launch = step_launch(
        "avg_pool_lanes", {type_name(from.dtype), type_name(to.dtype)}, g, step,
        width,
        {{step.reads_slices ? kFirstTemporary : 0},
         {is_last ? 1 : kFirstTemporary, Access::write}});
    set_no_divisor(launch);
    if (!step.reads_slices) {
      set_terms(launch, averaging);
    }
    if (is_last) {
      set_averages(launch, g, averaging);
    }
    add(plan, std::move(launch), g, step, width);
  }
  return plan;
}

} // namespace mlx_pooling::metal
