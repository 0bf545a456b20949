#include "metal/plan.h"

#include <algorithm>

#include "metal/lanes.h"
#include "metal/launches.h"
#include "metal/runs.h"
#include "metal/select.h"
#include "metal/sweeps.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

// Elements from the first to the last of a thread's own tile.
int64_t own_reach(const Layout& array, Tile tile) {
  return (tile.h - 1) * array.step[1] + (tile.w - 1) * array.step[2];
}

// Of kernels that look at the inputs of a tile of outputs,
const char* window_index(const Geometry& g, Tile tile) {
  auto [x, y] = layouts(g);
  auto& [d, h, w] = g.axes;
  auto reach = window_extent(d, 1) * x.step[0] +
      window_extent(h, tile.h) * x.step[1] +
      window_extent(w, tile.w) * x.step[2];
  auto longest = std::max(tile.h, tile.w);
  return index_type(g, longest, std::max(reach, own_reach(y, tile)));
}

// at the outputs around a tile of inputs,
const char* cover_index(const Geometry& g, Tile tile) {
  auto [x, y] = layouts(g);
  auto& [d, h, w] = g.axes;
  auto reach = cover_extent(d, 1) * y.step[0] +
      cover_extent(h, tile.h) * y.step[1] + cover_extent(w, tile.w) * y.step[2];
  return index_type(g, tile.w, std::max(reach, own_reach(x, tile)));
}

// and at one element only of each array.
const char* element_index(const Geometry& g) {
  return index_type(g, 1, 0);
}

// A kernel whose arguments are types, that of its indices, and sizes.
std::string kernel_of(
    const std::string& name,
    std::vector<std::string> arguments,
    const char* index_type,
    std::initializer_list<int64_t> sizes) {
  arguments.push_back(index_type);
  for (auto size : sizes) {
    arguments.push_back(std::to_string(size));
  }
  return instantiation(name, arguments);
}

// What a thread of a kernel computes: a tile of so many channels. Those of few
// channels know their columns anyway.
struct Tiled {
  std::string kernel;
  int64_t channels;
  Tile tile;
  bool is_flat;
};

Tiled over_windows_kernel(
    const std::string& name,
    std::vector<std::string> types,
    const Geometry& g,
    const std::vector<Operand>& operands) {
  if (auto run = window_run(g, operands)) {
    auto& [width, tile, reach, read] = *run;
    auto& w = g.axes[2];
    return {
        kernel_of(
            name + "_flat", std::move(types), window_index(g, tile),
            {width, g.channels, tile.h, tile.w, w.kernel, w.stride,
             w.dilation}),
        g.channels, tile, true};
  }
  auto width = vector_width(g.channels, operands);
  auto tile = window_tile(g, width);
  return {
      kernel_of(
          name, std::move(types), window_index(g, tile),
          {width, tile.h, tile.w}),
      width, tile, false};
}

Tiled over_covers_kernel(
    const std::string& name,
    std::vector<std::string> types,
    const Geometry& g,
    const std::vector<Operand>& operands) {
  if (auto run = cover_run(g, operands)) {
    auto& [width, tile, reach, read] = *run;
    return {
        kernel_of(
            name + "_flat", std::move(types), cover_index(g, tile),
            {read, width, g.channels, tile.w, reach}),
        g.channels, tile, true};
  }
  auto width = vector_width(g.channels, operands);
  auto tile = cover_tile(g, width);
  return {
      kernel_of(name, std::move(types), cover_index(g, tile), {width, tile.w}),
      width, tile, false};
}

// A launch over outputs, each looking at the inputs in its window.
std::vector<Launch>
over_windows(Launch launch, const Geometry& g, int64_t channels, Tile tile) {
  auto& [d, h, w] = g.axes;
  auto rows = ceil_div(h.out, tile.h) * tile.h;
  auto columns = ceil_div(w.out, tile.w) * tile.w;
  set(launch, Constant::clip_rows, d.leaves_input() || leaves_input(h, rows));
  set(launch, Constant::clip_columns, leaves_input(w, columns));
  launch.params.results = {{0, 0, 0}, {d.out, h.out, w.out}};
  return launches(std::move(launch), g.batch, g.channels / channels, tile);
}

// Whether a tile of windows has few columns and, where windows share them, each
// window one of the input.
bool has_known_columns(const Axis& w, int tile) {
  bool are_few =
      !w.adaptive && w.kernel + (tile - 1) * w.stride <= kMostColumns;
  bool has_all = w.taps(0).size() > 0 && w.taps(w.out - 1).size() > 0;
  return are_few && (tile == 1 || has_all);
}

// Launches over outputs that know their columns if they can,
std::vector<Launch>
poolings(Launch launch, const Geometry& g, const Tiled& tiled) {
  auto& w = g.axes[2];
  set(launch, Constant::known_columns,
      !tiled.is_flat && has_known_columns(w, tiled.tile.w));
  return over_windows(std::move(launch), g, tiled.channels, tiled.tile);
}

// A launch over inputs, each looking at the windows around it.
std::vector<Launch>
over_covers(Launch launch, const Geometry& g, int64_t channels, Tile tile) {
  auto& [d, h, w] = g.axes;
  launch.params.results = {{0, 0, 0}, {d.in, h.in, w.in}};
  return launches(std::move(launch), g.batch, g.channels / channels, tile);
}

// Up to a tile's first input, of the first window around it, where that is the
// same of all tiles and they reach few columns of windows; else 0.
int64_t taps_to_tile(const Launch& launch, const Axis& w, int tile) {
  bool is_constant =
      launch.constants[static_cast<int>(Constant::kernel_w)] != 0;
  bool are_alike = !w.adaptive && w.dilation == 1 && w.kernel >= w.stride &&
      tile % w.stride == 0;
  if (!is_constant || !are_alike) {
    return 0;
  }
  auto tap = first_cover_tap(w);
  return (tap + tile - 1) / w.stride < kMostColumns ? tap + 1 : 0;
}

// and over inputs, of a gradient.
std::vector<Launch>
gradients(Launch launch, const Geometry& g, const Tiled& tiled) {
  if (!tiled.is_flat) {
    launch.constants[static_cast<int>(Constant::taps_to_tile)] =
        taps_to_tile(launch, g.axes[2], tiled.tile.w);
  }
  return over_covers(std::move(launch), g, tiled.channels, tiled.tile);
}

mx::Shape plane_shape(const Geometry& g) {
  auto size = [](int64_t of) { return static_cast<mx::ShapeElem>(of); };
  auto& [d, h, w] = g.axes;
  return {size(g.batch), size(d.in), size(h.in), size(w.in), size(g.channels)};
}

constexpr int kSources = kFirstTemporary;

// Of unpooling: leaves there the number of the element that each position of
// the plane belongs to.
Plan plan_unpool_sources(const Geometry& g) {
  auto launch = [&](const char* kernel, std::vector<Buffer> buffers) {
    return make_launch(
        instantiation(kernel, {element_index(g)}), g, std::move(buffers));
  };
  auto clear = launch("unpool_clear", {Buffer{kSources, Access::write}});
  auto claim = launch("unpool_claim", {{0}, {kSources, Access::update}});
  Plan plan{over_covers(clear, g, 1, {1, 1}), {{mx::uint32, plane_shape(g)}}};
  append(plan, over_windows(claim, g, 1, {1, 1}));
  return plan;
}

} // namespace

Plan plan_max_pool(
    const Geometry& g, Operand x, Operand y, const Operand* offsets) {
  std::vector<Operand> operands{x, y};
  if (offsets != nullptr) {
    operands.push_back(*offsets);
  }
  auto width = vector_width(g.channels, operands);
  auto way = forward_way(g, width);
  if (auto split = window_split(g, width, way)) {
    return plan_max_lanes(g, *split, x, y, offsets);
  }
  if (way != Way::direct) {
    return plan_max_sweeps(g, x, y, offsets);
  }
  auto tiled = over_windows_kernel(
      "max_pool",
      {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar"}, g,
      operands);
  auto launch = make_launch(
      tiled.kernel, g, {{0}, {1, Access::write}, {2, Access::write}});
  set(launch, Constant::with_offsets, offsets != nullptr);
  set(launch, Constant::minimum, g.minimum);
  return {poolings(std::move(launch), g, tiled), {}};
}

Plan plan_max_pool_scatter(
    const Geometry& g, Operand offsets, Operand dy, Operand dx) {
  auto width = vector_width(g.channels, {offsets, dy, dx});
  if (backward_way(g, width) != Way::direct) {
    return plan_max_scatter_sweeps(g, offsets, dy, dx);
  }
  auto tiled = over_covers_kernel(
      "max_pool_scatter", {type_name(dy.dtype), type_name(offsets.dtype)}, g,
      {offsets, dy, dx});
  auto launch = make_launch(tiled.kernel, g, {{0}, {1}, {2, Access::write}});
  return {gradients(std::move(launch), g, tiled), {}};
}

Plan plan_max_pool_gather(
    const Geometry& g, Operand offsets, Operand y, bool with_values) {
  auto kernel = instantiation(
      "max_pool_gather",
      {word_name(y.dtype), type_name(offsets.dtype), element_index(g)});
  auto launch = make_launch(kernel, g, {{0}, {1, Access::write}, {2}});
  set(launch, Constant::with_values, with_values);
  return {over_windows(std::move(launch), g, 1, {1, 1}), {}};
}

Plan plan_max_unpool(const Geometry& g, Operand y) {
  auto plan = plan_unpool_sources(g);
  auto place = make_launch(
      instantiation("unpool_place", {word_name(y.dtype), element_index(g)}), g,
      {{kSources}, {1}, {2, Access::write}});
  append(plan, over_covers(place, g, 1, {1, 1}));
  return plan;
}

Plan plan_max_unpool_grad(const Geometry& g, Operand dx) {
  auto plan = plan_unpool_sources(g);
  auto take = make_launch(
      instantiation("unpool_take", {word_name(dx.dtype), element_index(g)}), g,
      {{0}, {kSources}, {1}, {2, Access::write}});
  append(plan, over_windows(take, g, 1, {1, 1}));
  return plan;
}

Plan plan_avg_pool(
    const Geometry& g, Operand x, Averaging averaging, Operand y) {
  auto operands = summed(x, y);
  auto width = vector_width(g.channels, operands);
  auto way = forward_way(g, width);
  if (auto split = window_split(g, width, way)) {
    return plan_avg_lanes(g, *split, x, averaging, y);
  }
  if (way != Way::direct) {
    return plan_avg_sweeps(g, x, averaging, y);
  }
  auto tiled = over_windows_kernel(
      "avg_pool", {type_name(x.dtype), type_name(y.dtype)}, g, operands);
  auto launch = make_launch(tiled.kernel, g, {{0}, {1, Access::write}});
  set_terms(launch, averaging);
  set_averages(launch, g, averaging);
  return {poolings(std::move(launch), g, tiled), {}};
}

Plan plan_avg_pool_grad(const Geometry& g, Operand dy, Operand dx) {
  auto width = vector_width(g.channels, {dy, dx});
  if (backward_way(g, width) != Way::direct) {
    return plan_avg_grad_sweeps(g, dy, dx);
  }
  auto tiled =
      over_covers_kernel("avg_pool_grad", {type_name(dy.dtype)}, g, {dy, dx});
  auto launch = make_launch(tiled.kernel, g, {{0}, {1, Access::write}});
  set_divisor(launch, g);
  return {gradients(std::move(launch), g, tiled), {}};
}

} // namespace mlx_pooling::metal
