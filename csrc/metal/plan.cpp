#include "metal/plan.h"

#include <algorithm>

#include "metal/launches.h"
#include "metal/select.h"
#include "metal/sweeps.h"

namespace mlx_pooling::metal {

namespace {

const char* direct_index_type(const Geometry& g) {
  auto positions = std::max(g.inputs(), g.outputs());
  return index_type(g, positions * g.channels, kLongestTile);
}

// A launch over outputs, each looking at the inputs in its window.
std::vector<Launch>
over_windows(Launch launch, const Geometry& g, int width, Tile tile) {
  auto& [d, h, w] = g.axes;
  set(launch, Constant::clip_rows, d.leaves_input() || leaves_input(h, tile.h));
  set(launch, Constant::clip_columns, leaves_input(w, tile.w));
  return launches(
      std::move(launch), g.channels / width, ceil_div(w.out, tile.w),
      g.batch * d.out * ceil_div(h.out, tile.h));
}

// A launch over inputs, each looking at the windows around it.
std::vector<Launch>
over_covers(Launch launch, const Geometry& g, int width, Tile tile) {
  auto& w = g.axes[2];
  return launches(
      std::move(launch), g.channels / width, ceil_div(w.in, tile.w),
      g.inputs() / w.in);
}

} // namespace

Plan plan_max_pool(
    const Geometry& g, Operand x, Operand y, const Operand* offsets) {
  std::vector<Operand> operands{x, y};
  if (offsets != nullptr) {
    operands.push_back(*offsets);
  }
  auto width = vector_width(g.channels, operands);
  if (auto way = forward_way(g, width); way != Way::direct) {
    return plan_max_sweeps(g, way, x, y, offsets);
  }
  auto tile = window_tile(g, width);
  auto kernel = instantiation(
      "max_pool",
      {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar",
       direct_index_type(g), std::to_string(width), std::to_string(tile.h),
       std::to_string(tile.w)});
  auto launch =
      make_launch(kernel, g, {{0}, {1, Access::write}, {2, Access::write}});
  set(launch, Constant::with_offsets, offsets != nullptr);
  set(launch, Constant::minimum, g.minimum);
  return {over_windows(std::move(launch), g, width, tile), {}};
}

Plan plan_max_pool_scatter(
    const Geometry& g, Operand offsets, Operand dy, Operand dx) {
  if (backward_way(g) != Way::direct) {
    return plan_max_scatter_sweeps(g, offsets, dy, dx);
  }
  auto width = vector_width(g.channels, {offsets, dy, dx});
  auto tile = cover_tile(g, width);
  auto kernel = instantiation(
      "max_pool_scatter",
      {type_name(dy.dtype), type_name(offsets.dtype), direct_index_type(g),
       std::to_string(width), std::to_string(tile.w)});
  auto launch = make_launch(kernel, g, {{0}, {1}, {2, Access::write}});
  return {over_covers(std::move(launch), g, width, tile), {}};
}

Plan plan_max_pool_gather(
    const Geometry& g, Operand offsets, Operand y, bool with_values) {
  auto kernel = instantiation(
      "max_pool_gather",
      {word_name(y.dtype), type_name(offsets.dtype), direct_index_type(g)});
  auto launch = make_launch(kernel, g, {{0}, {1, Access::write}, {2}});
  set(launch, Constant::with_values, with_values);
  return {over_windows(std::move(launch), g, 1, {1, 1}), {}};
}

Plan plan_unpool_routes(const Geometry& g) {
  auto launch = [&](const char* kernel, std::vector<Buffer> buffers) {
    return make_launch(
        instantiation(kernel, {direct_index_type(g)}), g, std::move(buffers));
  };
  auto clear = launch("unpool_clear", {Buffer{1, Access::write}});
  auto claim = launch("unpool_claim", {{0}, {1, Access::update}});
  auto settle = launch("unpool_settle", {{0}, {1}, {2, Access::write}});
  Plan plan{over_covers(clear, g, 1, {1, 1}), {}};
  append(plan, over_windows(claim, g, 1, {1, 1}));
  append(plan, over_windows(settle, g, 1, {1, 1}));
  return plan;
}

Plan plan_avg_pool(const Geometry& g, Operand x, Operand y) {
  auto width = vector_width(g.channels, {x, y});
  if (auto way = forward_way(g, width); way != Way::direct) {
    return plan_avg_sweeps(g, way, x, y);
  }
  auto tile = window_tile(g, width);
  auto kernel = instantiation(
      "avg_pool",
      {type_name(x.dtype), direct_index_type(g), std::to_string(width),
       std::to_string(tile.h), std::to_string(tile.w)});
  auto launch = make_launch(kernel, g, {{0}, {1, Access::write}});
  set_divisor(launch, g);
  return {over_windows(std::move(launch), g, width, tile), {}};
}

Plan plan_avg_pool_grad(const Geometry& g, Operand dy, Operand dx) {
  if (backward_way(g) != Way::direct) {
    return plan_avg_grad_sweeps(g, dy, dx);
  }
  auto width = vector_width(g.channels, {dy, dx});
  auto tile = cover_tile(g, width);
  auto kernel = instantiation(
      "avg_pool_grad",
      {type_name(dy.dtype), direct_index_type(g), std::to_string(width),
       std::to_string(tile.w)});
  auto launch = make_launch(kernel, g, {{0}, {1, Access::write}});
  set_divisor(launch, g);
  return {over_covers(std::move(launch), g, width, tile), {}};
}

} // namespace mlx_pooling::metal
