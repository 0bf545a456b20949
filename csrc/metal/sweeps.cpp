#include "metal/sweeps.h"

#include <algorithm>
#include <cmath>

#include "metal/launches.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

constexpr Axis kUnitAxis{
    .in = 1,
    .out = 1,
    .kernel = 1,
    .stride = 1,
    .dilation = 1,
    .pad_lo = 0,
    .pad_hi = 0,
    .adaptive = false};

// A pass over one axis of an array (rows, axis, channels).
struct Pass {
  // Has the axis as W and those before it as H and D; the ones after it are
  // among its channels.
  Geometry view;
  mx::Shape result;

  const Axis& axis() const {
    return view.axes[2];
  }
  // For each position along the axis.
  int64_t elements() const {
    auto& [d, h, w] = view.axes;
    return view.batch * d.out * h.out * view.channels;
  }
  Layout layout(int64_t length) const {
    auto& [d, h, w] = view.axes;
    return row_major(d.out, h.out, length, view.channels);
  }
};

using Order = std::array<int, kMaxSpatialAxes>;
constexpr Order kFromColumns{2, 1, 0};
constexpr Order kFromDepth{0, 1, 2};

using Sizes = std::array<int64_t, kMaxSpatialAxes>;

// Of an array of these sizes: rows are as many as it has, whether other passes
// came before or not.
Geometry view_of_axis(const Geometry& g, int axis, const Sizes& sizes) {
  auto view = g;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    int from = i + axis - 2;
    view.axes[i] = from < 0 ? kUnitAxis : g.axes[from];
    if (from >= 0 && from < axis) {
      view.axes[i].out = sizes[from];
    }
  }
  for (int i = axis + 1; i < kMaxSpatialAxes; ++i) {
    view.channels *= sizes[i];
  }
  return view;
}

mx::Shape shape_of(std::initializer_list<int64_t> sizes) {
  mx::Shape shape;
  for (auto size : sizes) {
    shape.push_back(static_cast<mx::ShapeElem>(size));
  }
  return shape;
}

// Over every axis that does anything; `to` and `from` are its sizes.
std::vector<Pass> passes_over_axes(
    const Geometry& g, Order order, int64_t Axis::* from, int64_t Axis::* to) {
  Sizes sizes;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    sizes[i] = g.axes[i].*from;
  }
  std::vector<Pass> passes;
  for (int i : order) {
    if (is_trivial(g.axes[i])) {
      continue;
    }
    auto view = view_of_axis(g, i, sizes);
    sizes[i] = g.axes[i].*to;
    passes.push_back(
        {view, shape_of({g.batch, sizes[0], sizes[1], sizes[2], g.channels})});
  }
  return passes;
}

// Over chunks of all positions, and over what these leave; about as many.
std::vector<Pass> passes_over_chunks(const Geometry& g) {
  auto positions = g.inputs() / g.batch;
  auto size = static_cast<int64_t>(std::ceil(std::sqrt(positions)));
  auto chunks = kUnitAxis;
  chunks.in = positions;
  chunks.kernel = chunks.stride = size;
  chunks.out = ceil_div(positions, size);
  auto rest = kUnitAxis;
  rest.in = rest.kernel = chunks.out;
  std::vector<Pass> passes;
  for (auto& axis : {chunks, rest}) {
    auto view = g;
    view.axes = {kUnitAxis, kUnitAxis, axis};
    passes.push_back({view, shape_of({g.batch, axis.out, g.channels})});
  }
  return passes;
}

std::vector<Pass> forward_passes(const Geometry& g, Way way, Order order) {
  return way == Way::chunks ? passes_over_chunks(g)
                            : passes_over_axes(g, order, &Axis::in, &Axis::out);
}

std::vector<Pass> backward_passes(const Geometry& g) {
  return passes_over_axes(g, kFromColumns, &Axis::out, &Axis::in);
}

// What passes leave to each other: the geometry counts the parts of complex64.
mx::Dtype sum_dtype(mx::Dtype dtype) {
  return mx::issubdtype(dtype, mx::inexact) ? mx::float32 : dtype;
}

// An array of a plan, as a launch sees it.
struct Numbered {
  int array;
  Operand operand;
};

Numbered add_temporary(Plan& plan, mx::Dtype dtype, const mx::Shape& shape) {
  plan.temporaries.push_back({dtype, shape});
  auto last = static_cast<int>(plan.temporaries.size()) - 1;
  return {kFirstTemporary + last, {dtype}};
}

std::string sweep_kernel(
    const char* name,
    std::vector<std::string> arguments,
    const Pass& pass,
    Strip strip,
    int64_t Axis::* results) {
  auto& axis = pass.axis();
  auto positions = results == &Axis::out ? window_extent(axis, strip.length)
                                         : cover_extent(axis, strip.length);
  auto reach = std::max<int64_t>(positions, strip.length) * pass.view.channels;
  arguments.push_back(index_type(pass.view, strip.length, reach));
  arguments.push_back(std::to_string(strip.width));
  arguments.push_back(std::to_string(strip.length));
  return instantiation(name, arguments);
}

std::vector<Launch> over_strips(
    Launch launch, const Pass& pass, Strip strip, int64_t Axis::* results) {
  auto& axis = pass.axis();
  auto& [d, h, w] = pass.view.axes;
  launch.params.x = pass.layout(axis.in);
  launch.params.y = pass.layout(axis.out);
  set(launch, Constant::clip_columns, leaves_input(axis, strip.length));
  return launches(
      std::move(launch), pass.view.channels / strip.width,
      ceil_div(axis.*results, strip.length), {pass.view.batch, d.out, h.out});
}

// How passes over sums differ.
struct Sums {
  const char* kernel;
  Strip (*strip)(const Axis& axis, int64_t elements, int width);
  int64_t Axis::* results;
  const Pass* dividing; // by the divisors of `divided`
  const Geometry* divided;
};

Plan plan_sums(
    const Sums& sums, const std::vector<Pass>& passes, Operand x, Operand y) {
  Plan plan;
  Numbered from{0, x};
  for (auto& pass : passes) {
    auto to = &pass == &passes.back()
        ? Numbered{1, y}
        : add_temporary(plan, sum_dtype(y.dtype), pass.result);
    auto strip = sums.strip(
        pass.axis(), pass.elements(),
        vector_width(pass.view.channels, {from.operand, to.operand}));
    auto kernel = sweep_kernel(
        sums.kernel,
        {type_name(from.operand.dtype), type_name(to.operand.dtype)}, pass,
        strip, sums.results);
    auto launch = make_launch(
        kernel, pass.view, {{from.array}, {to.array, Access::write}});
    launch.params.divisor = 1;
    set(launch, Constant::uniform_divisor, true);
    if (&pass == sums.dividing) {
      set_divisor(launch, *sums.divided);
    }
    append(plan, over_strips(launch, pass, strip, sums.results));
    from = to;
  }
  return plan;
}

} // namespace

Plan plan_max_sweeps(
    const Geometry& g, Way way, Operand x, Operand y, const Operand* offsets) {
  Plan plan;
  auto passes = forward_passes(g, way, kFromColumns);
  Numbered from{0, x};
  int taps_from = kNoArray;
  int64_t column_taps = 1;
  for (auto& pass : passes) {
    bool is_last = &pass == &passes.back();
    auto to =
        is_last ? Numbered{1, y} : add_temporary(plan, x.dtype, pass.result);
    std::vector<Operand> operands{from.operand, to.operand};
    int taps_to = kNoArray;
    if (offsets != nullptr) {
      auto taps = is_last ? Numbered{2, *offsets}
                          : add_temporary(plan, offsets->dtype, pass.result);
      operands.push_back(taps.operand);
      taps_to = taps.array;
    }
    auto strip = window_strip(
        pass.axis(), pass.elements(),
        vector_width(pass.view.channels, operands));
    auto kernel = sweep_kernel(
        "max_sweep",
        {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar"},
        pass, strip, &Axis::out);
    auto launch = make_launch(
        kernel, pass.view,
        {{from.array},
         {to.array, Access::write},
         {taps_to, Access::write},
         {taps_from}});
    launch.params.column_taps = column_taps;
    set(launch, Constant::with_offsets, offsets != nullptr);
    set(launch, Constant::with_taps, taps_from != kNoArray);
    set(launch, Constant::minimum, g.minimum);
    append(plan, over_strips(launch, pass, strip, &Axis::out));
    column_taps *= pass.axis().kernel;
    from = to;
    taps_from = taps_to;
  }
  return plan;
}

Plan plan_max_scatter_sweeps(
    const Geometry& g, Operand offsets, Operand dy, Operand dx) {
  Plan plan;
  auto passes = backward_passes(g);
  Numbered taps_from{0, offsets};
  Numbered from{1, dy};
  for (auto& pass : passes) {
    bool is_last = &pass == &passes.back();
    auto to = is_last ? Numbered{2, dx}
                      : add_temporary(plan, sum_dtype(dx.dtype), pass.result);
    auto taps_to = is_last ? Numbered{kNoArray, offsets}
                           : add_temporary(plan, offsets.dtype, pass.result);
    auto width = vector_width(
        pass.view.channels, {taps_from.operand, from.operand, to.operand});
    auto strip = cover_strip(pass.axis(), pass.elements(), width);
    auto kernel = sweep_kernel(
        "max_scatter_sweep",
        {type_name(from.operand.dtype), type_name(to.operand.dtype),
         type_name(offsets.dtype)},
        pass, strip, &Axis::in);
    auto launch = make_launch(
        kernel, pass.view,
        {{taps_from.array},
         {from.array},
         {to.array, Access::write},
         {taps_to.array, Access::write}});
    set(launch, Constant::with_taps, !is_last);
    append(plan, over_strips(launch, pass, strip, &Axis::in));
    from = to;
    taps_from = taps_to;
  }
  return plan;
}

Plan plan_avg_sweeps(const Geometry& g, Way way, Operand x, Operand y) {
  auto passes = forward_passes(g, way, kFromDepth);
  auto& last = passes.back();
  auto& divided = way == Way::chunks ? g : last.view;
  return plan_sums(
      {"avg_sweep", window_strip, &Axis::out, &last, &divided}, passes, x, y);
}

Plan plan_avg_grad_sweeps(const Geometry& g, Operand dy, Operand dx) {
  auto passes = backward_passes(g);
  auto& first = passes.front();
  return plan_sums(
      {"avg_grad_sweep", cover_strip, &Axis::in, &first, &first.view}, passes,
      dy, dx);
}

} // namespace mlx_pooling::metal
