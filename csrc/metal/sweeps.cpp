#include "metal/sweeps.h"

#include <algorithm>
#include <numeric>

#include "metal/launches.h"
#include "metal/passes.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

// What forward and backward passes of one gradient may leave together, since
// they are queued together and neither's arrays are free before both are done:
// with the offsets, a tenth more than the input's gradient and these.
int64_t memory(const Geometry& g, mx::Dtype dtype, const Operand* offsets) {
  auto input = g.inputs() * g.channels * element_bytes(dtype);
  auto taps = offsets == nullptr
      ? 0
      : g.outputs() * g.channels * element_bytes(offsets->dtype);
  return (11 * input + taps) / 10;
}

// An array of a plan, as a launch sees it.
struct Numbered {
  int array;
  Operand operand;
};

// Hands out the arrays between the passes of a slab, to every slab the same.
// That is safe within one command buffer: MLX's encoder has a barrier not only
// between a launch that writes an array and one that reads it, but also where
// the one that writes comes later.
class Temporaries {
 public:
  explicit Temporaries(Plan& plan) : plan_(plan) {}

  Numbered next(mx::Dtype dtype, const mx::Shape& shape) {
    if (used_ == plan_.temporaries.size()) {
      plan_.temporaries.push_back({dtype, shape});
    }
    // The first slab is the largest.
    are_filled_ = plan_.temporaries[used_].shape == shape;
    return {kFirstTemporary + static_cast<int>(used_++), {dtype}};
  }

  // How the pass writes its results, to a temporary or not.
  Access access(const Pass& pass) const {
    return are_filled_ && pass.is_all ? Access::write : Access::part;
  }

 private:
  Plan& plan_;
  size_t used_ = 0;
  bool are_filled_ = true;
};

// The most channels in a vector, all of whose elements every array has at
// multiples of its size.
int pass_width(const Pass& pass, const std::vector<Operand>& operands) {
  auto multiple = pass.channels;
  for (auto& layout : {pass.x, pass.y}) {
    multiple = std::gcd(std::gcd(multiple, layout.first), layout.item);
    for (auto step : layout.step) {
      multiple = std::gcd(multiple, step);
    }
  }
  return vector_width(multiple, operands);
}

Strip pass_strip(const Pass& pass, int width, bool is_forward) {
  auto strip = is_forward ? window_strip : cover_strip;
  return strip(pass.axis(), pass.results.size[2], pass.elements(), width);
}

std::string sweep_kernel(
    const char* name,
    std::vector<std::string> arguments,
    const Pass& pass,
    Strip strip,
    bool is_forward) {
  auto& axis = pass.axis();
  auto seen = is_forward ? window_extent(axis, strip.length) * pass.x.step[2]
                         : cover_extent(axis, strip.length) * pass.y.step[2];
  auto own = strip.length * (is_forward ? pass.y : pass.x).step[2];
  auto reach = std::max({seen, own, pass.channels});
  arguments.push_back(index_type(pass.view, strip.length, reach));
  arguments.push_back(std::to_string(strip.width));
  arguments.push_back(std::to_string(strip.length));
  return instantiation(name, arguments);
}

std::vector<Launch> over_strips(Launch launch, const Pass& pass, Strip strip) {
  auto& results = pass.results;
  // Passes divide by them, and windows of these are seldom sized as inputs are.
  set_all_sizes(launch, pass.view);
  launch.params.x = pass.x;
  launch.params.y = pass.y;
  launch.params.results = results;
  auto strips = ceil_div(results.size[2], strip.length);
  auto end = results.first[2] + strips * strip.length;
  set(launch, Constant::clip_columns, leaves_input(pass.axis(), end));
  return launches(
      std::move(launch), pass.view.batch, pass.channels / strip.width,
      {1, strip.length});
}

// How passes over sums differ.
struct Sums {
  const char* kernel;
  bool is_forward;
  bool divides_last; // or else first
  Averaging averaging;
};

void append_sums(
    Plan& plan, const Sums& sums, const Slab& slab, Operand x, Operand y) {
  Temporaries temporaries(plan);
  auto* dividing = sums.divides_last ? &slab.back() : &slab.front();
  Numbered from{0, x};
  for (auto& pass : slab) {
    auto to = &pass == &slab.back()
        ? Numbered{1, y}
        : temporaries.next(average_sum_dtype(y.dtype), pass.shape);
    auto width = pass_width(pass, summed(from.operand, to.operand));
    auto strip = pass_strip(pass, width, sums.is_forward);
    auto kernel = sweep_kernel(
        sums.kernel,
        {type_name(from.operand.dtype), type_name(to.operand.dtype)}, pass,
        strip, sums.is_forward);
    auto launch = make_launch(
        kernel, pass.view,
        {{from.array}, {to.array, temporaries.access(pass)}});
    set_no_divisor(launch);
    if (&pass == &slab.front()) {
      set_terms(launch, sums.averaging);
    }
    if (&pass == dividing) {
      set_averages(launch, pass.view, sums.averaging);
    }
    append(plan, over_strips(launch, pass, strip));
    from = to;
  }
}

void append_max_sweeps(
    Plan& plan,
    const Geometry& g,
    const Slab& slab,
    Operand x,
    Operand y,
    const Operand* offsets) {
  Temporaries temporaries(plan);
  Numbered from{0, x};
  int taps_from = kNoArray;
  int64_t column_taps = 1;
  for (auto& pass : slab) {
    bool is_last = &pass == &slab.back();
    auto to = is_last ? Numbered{1, y} : temporaries.next(x.dtype, pass.shape);
    std::vector<Operand> operands{from.operand, to.operand};
    int taps_to = kNoArray;
    if (offsets != nullptr) {
      auto taps = is_last ? Numbered{2, *offsets}
                          : temporaries.next(offsets->dtype, pass.shape);
      operands.push_back(taps.operand);
      taps_to = taps.array;
    }
    auto strip = pass_strip(pass, pass_width(pass, operands), true);
    auto kernel = sweep_kernel(
        "max_sweep",
        {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar"},
        pass, strip, true);
    auto access = temporaries.access(pass);
    auto launch = make_launch(
        kernel, pass.view,
        {{from.array}, {to.array, access}, {taps_to, access}, {taps_from}});
    launch.params.column_taps = column_taps;
    set(launch, Constant::with_offsets, offsets != nullptr);
    set(launch, Constant::with_taps, taps_from != kNoArray);
    set(launch, Constant::minimum, g.minimum);
    append(plan, over_strips(launch, pass, strip));
    column_taps *= pass.axis().kernel;
    from = to;
    taps_from = taps_to;
  }
}

void append_max_scatter_sweeps(
    Plan& plan, const Slab& slab, Operand offsets, Operand dy, Operand dx) {
  Temporaries temporaries(plan);
  Numbered taps_from{0, offsets};
  Numbered from{1, dy};
  for (auto& pass : slab) {
    bool is_last = &pass == &slab.back();
    auto to = is_last ? Numbered{2, dx}
                      : temporaries.next(sum_dtype(dx.dtype), pass.shape);
    auto taps_to = is_last ? Numbered{kNoArray, offsets}
                           : temporaries.next(offsets.dtype, pass.shape);
    auto width =
        pass_width(pass, {taps_from.operand, from.operand, to.operand});
    auto strip = pass_strip(pass, width, false);
    auto kernel = sweep_kernel(
        "max_scatter_sweep",
        {type_name(from.operand.dtype), type_name(to.operand.dtype),
         type_name(offsets.dtype)},
        pass, strip, false);
    auto access = temporaries.access(pass);
    auto launch = make_launch(
        kernel, pass.view,
        {{taps_from.array},
         {from.array},
         {to.array, access},
         {taps_to.array, access}});
    set(launch, Constant::with_taps, !is_last);
    append(plan, over_strips(launch, pass, strip));
    from = to;
    taps_from = taps_to;
  }
}

} // namespace

Plan plan_max_sweeps(
    const Geometry& g, Operand x, Operand y, const Operand* offsets) {
  auto element = element_bytes(x.dtype) +
      (offsets != nullptr ? element_bytes(offsets->dtype) : 0);
  // Without offsets there will be no gradient.
  auto share = memory(g, x.dtype, offsets) / (offsets != nullptr ? 3 : 1);
  Plan plan;
  for (auto& slab : forward_slabs(g, Order::from_columns, {element, share})) {
    append_max_sweeps(plan, g, slab, x, y, offsets);
  }
  return plan;
}

Plan plan_max_scatter_sweeps(
    const Geometry& g, Operand offsets, Operand dy, Operand dx) {
  auto element =
      element_bytes(sum_dtype(dx.dtype)) + element_bytes(offsets.dtype);
  // Sums take more than maxima.
  auto share = 2 * memory(g, dx.dtype, &offsets) / 3;
  Plan plan;
  for (auto& slab : backward_slabs(g, {element, share})) {
    append_max_scatter_sweeps(plan, slab, offsets, dy, dx);
  }
  return plan;
}

Plan plan_avg_sweeps(
    const Geometry& g, Operand x, Averaging averaging, Operand y) {
  auto sums = average_sum_dtype(y.dtype);
  // Of integers nobody wants a gradient.
  bool of_integers = !mx::issubdtype(x.dtype, mx::inexact);
  auto share =
      of_integers ? memory(g, sums, nullptr) : memory(g, x.dtype, nullptr) / 2;
  Plan plan;
  for (auto& slab :
       forward_slabs(g, Order::from_depth, {element_bytes(sums), share})) {
    append_sums(plan, {"avg_sweep", true, true, averaging}, slab, x, y);
  }
  return plan;
}

Plan plan_avg_grad_sweeps(const Geometry& g, Operand dy, Operand dx) {
  auto element = element_bytes(sum_dtype(dx.dtype));
  auto share = memory(g, dx.dtype, nullptr) / 2;
  Plan plan;
  for (auto& slab : backward_slabs(g, {element, share})) {
    append_sums(plan, {"avg_grad_sweep", false, false, {}}, slab, dy, dx);
  }
  return plan;
}

} // namespace mlx_pooling::metal
