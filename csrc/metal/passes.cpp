#include "metal/passes.h"

#include <algorithm>

#include "metal/launches.h"

namespace mlx_pooling::metal {

namespace {

constexpr int kNoAxis = -1;

// How passes go over the axes of a geometry.
struct Direction {
  int64_t Axis::* from;
  int64_t Axis::* to;
  bool is_forward;
};
constexpr Direction kForward{&Axis::in, &Axis::out, true};
constexpr Direction kBackward{&Axis::out, &Axis::in, false};

Block whole(const Geometry& g, int64_t Axis::* size) {
  auto& [d, h, w] = g.axes;
  return {{0, 0, 0}, {d.*size, h.*size, w.*size}};
}

// A view of an array for a pass over `axis`, where slabs are along another.
struct View {
  int axis;
  int slab_axis;

  // Those behind the axis are taken for channels where slabs leave them whole.
  bool is_flat(int i) const {
    return i > axis && i >= slab_axis;
  }
  // What the view has as D, H and W.
  std::array<int, kMaxSpatialAxes> axes() const {
    if (axis == 2) {
      return {0, 1, 2};
    }
    if (axis == 1) {
      return {kNoAxis, 0, 1};
    }
    return {kNoAxis, slab_axis == 2 ? 1 : kNoAxis, 0};
  }
};

// Of an array that holds such a block, for a pass with such results.
Layout
layout(View view, const Block& held, const Block& results, int64_t channels) {
  auto [depth, height, width] = held.size;
  auto rows = row_major(depth, height, width, channels);
  Layout layout{0, rows.item, {0, 0, 0}};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto first = view.is_flat(i) ? results.first[i] : 0;
    layout.first += (first - held.first[i]) * rows.step[i];
    if (int axis = view.axes()[i]; axis != kNoAxis) {
      layout.step[i] = rows.step[axis];
    }
  }
  return layout;
}

mlx::core::Shape shape_of(std::initializer_list<int64_t> sizes) {
  mlx::core::Shape shape;
  for (auto size : sizes) {
    shape.push_back(static_cast<mlx::core::ShapeElem>(size));
  }
  return shape;
}

// From an array that holds `from` to one that holds `to`, of which `results`
// are computed.
Pass make_pass(
    const Geometry& g,
    View view,
    Direction direction,
    const Block& from,
    const Block& results,
    const Block& to) {
  auto source = layout(view, from, results, g.channels);
  auto target = layout(view, to, results, g.channels);
  auto [depth, height, width] = results.size;
  Pass pass{
      g,
      g.channels,
      direction.is_forward ? source : target,
      direction.is_forward ? target : source,
      {{0, 0, 0}, {1, 1, 1}},
      shape_of({g.batch, depth, height, width, g.channels}),
      std::equal(results.size, results.size + kMaxSpatialAxes, to.size)};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    pass.channels *= view.is_flat(i) ? results.size[i] : 1;
    int axis = view.axes()[i];
    pass.view.axes[i] = axis == kNoAxis ? kUnitAxis : g.axes[axis];
    if (axis != kNoAxis) {
      pass.results.first[i] = results.first[axis];
      pass.results.size[i] = results.size[axis];
    }
  }
  return pass;
}

// Over these axes, one after the other, and `length` positions from `first` on
// along the first of them.
Slab make_slab(
    const Geometry& g,
    const std::vector<int>& axes,
    Direction direction,
    int64_t first,
    int64_t length) {
  auto slab_axis = axes.front();
  auto from = whole(g, direction.from);
  Slab slab;
  for (int axis : axes) {
    auto results = from;
    results.size[axis] = g.axes[axis].*direction.to;
    if (axis == slab_axis) {
      results.first[axis] = first;
      results.size[axis] = length;
    }
    bool is_last = axis == axes.back();
    auto to = is_last ? whole(g, direction.to) : results;
    slab.push_back(
        make_pass(g, {axis, slab_axis}, direction, from, results, to));
    from = results;
  }
  return slab;
}

int64_t elements(const mlx::core::Shape& shape) {
  int64_t count = 1;
  for (auto size : shape) {
    count *= size;
  }
  return count;
}

std::vector<Slab> make_slabs(
    const Geometry& g,
    const std::vector<int>& axes,
    Direction direction,
    Memory memory) {
  auto positions = g.axes[axes.front()].*direction.to;
  auto all = make_slab(g, axes, direction, 0, positions);
  int64_t between = 0;
  for (auto& pass : all) {
    between += &pass == &all.back() ? 0 : elements(pass.shape);
  }
  auto length = slab_length(
      positions, between * memory.element, memory.all,
      elements(all.front().shape));
  std::vector<Slab> slabs;
  for (int64_t first = 0; first < positions; first += length) {
    slabs.push_back(make_slab(
        g, axes, direction, first, std::min(length, positions - first)));
  }
  return slabs;
}

// Those that a pass does anything to.
std::vector<int> pooled_axes(const Geometry& g, Order order) {
  std::vector<int> axes;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    if (!g.axes[i].passes_through()) {
      axes.push_back(i);
    }
  }
  if (order == Order::from_columns) {
    std::reverse(axes.begin(), axes.end());
  }
  return axes;
}

} // namespace

std::vector<Slab> forward_slabs(const Geometry& g, Order order, Memory memory) {
  return make_slabs(g, pooled_axes(g, order), kForward, memory);
}

std::vector<Slab> backward_slabs(const Geometry& g, Memory memory) {
  auto axes = pooled_axes(g, Order::from_columns);
  return make_slabs(g, axes, kBackward, memory);
}

} // namespace mlx_pooling::metal
