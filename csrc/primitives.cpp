#include "primitives.h"

#include <limits>

#include "at_once.h"
#include "checks.h"
#include "mlx/ops.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

template <typename P, typename... Args>
std::vector<array> node(
    const std::vector<mx::Shape>& shapes,
    const std::vector<mx::Dtype>& dtypes,
    const std::vector<array>& inputs,
    mx::Stream s,
    Args&&... args) {
  return outputs_of(
      std::make_shared<P>(s, std::forward<Args>(args)...), shapes, dtypes,
      inputs);
}

// a without the graph it comes from, of which values have none.
array constant(const array& a, mx::Stream s) {
  return a.has_primitive() ? mx::stop_gradient(a, s) : a;
}

// x without strides; no node of the graph where it is known to have none.
array contiguous(const array& x, mx::Stream s) {
  bool is_known = x.is_available() && !x.is_tracer();
  return is_known && x.flags().row_contiguous ? x : mx::contiguous(x, false, s);
}

// A tangent as what is averaged, in the dtype of its averages. Sums of integers
// have another.
array averaged(const array& tangent, mx::Dtype dtype, mx::Stream s) {
  return mx::issubdtype(tangent.dtype(), mx::inexact)
      ? tangent
      : mx::astype(tangent, dtype, s);
}

mx::Dtype offsets_dtype(const Window& window) {
  // The top value of each type means "no valid tap".
  auto taps = window.taps();
  if (taps <= std::numeric_limits<uint8_t>::max()) {
    return mx::uint8;
  }
  return taps <= std::numeric_limits<uint16_t>::max() ? mx::uint16 : mx::uint32;
}

array max_pool_scatter_node(
    const array& offsets,
    const array& extent,
    const array& dy,
    const Window& w,
    mx::Stream s) {
  return node<MaxPoolScatter>(
      {input_shape(extent.shape(), dy.shape())}, {dy.dtype()},
      {contiguous(offsets, s), extent, contiguous(dy, s)}, s, w)[0];
}

array max_pool_gather_node(
    const array& offsets,
    const array& extent,
    const array& t,
    const Window& w,
    mx::Stream s) {
  return node<MaxPoolGather>(
      {offsets.shape()}, {t.dtype()},
      {contiguous(offsets, s), extent, contiguous(t, s)}, s, w)[0];
}

array max_unpool_grad_node(
    const array& indices, const array& dy, const Window& w, mx::Stream s) {
  return node<MaxUnpoolGrad>(
      {indices.shape()}, {dy.dtype()},
      {contiguous(indices, s), contiguous(dy, s)}, s, w)[0];
}

// The averages, or norms, and the extent.
template <typename P, typename... Args>
std::pair<array, array> traced_node(
    const array& x,
    mx::Dtype dtype,
    const Window& w,
    mx::Stream s,
    Args... args) {
  auto outputs = node<P>(
      {output_shape(w, x.shape()), extent_shape(x.shape())}, {dtype, mx::uint8},
      {contiguous(x, s)}, s, w, dtype, args..., true);
  return {outputs[0], constant(outputs[1], s)};
}

template <typename P, typename... Args>
array pool_node(
    const array& x,
    mx::Dtype dtype,
    const Window& w,
    mx::Stream s,
    Args... args) {
  if (x.is_tracer()) {
    return traced_node<P>(x, dtype, w, s, args...).first;
  }
  return node<P>(
      {output_shape(w, x.shape())}, {dtype}, {contiguous(x, s)}, s, w, dtype,
      args..., false)[0];
}

array avg_pool_grad_node(
    const array& extent, const array& dy, const Window& w, mx::Stream s) {
  return node<AvgPoolGrad>(
      {input_shape(extent.shape(), dy.shape())}, {dy.dtype()},
      {extent, contiguous(dy, s)}, s, w)[0];
}

// What a gradient of norms is divided by, with zero for those that are zero.
array over_norms(const array& a, const array& norms, mx::Stream s) {
  auto is_zero = mx::equal(norms, array(0, norms.dtype()), s);
  auto divisors = mx::where(is_zero, array(1, norms.dtype()), norms, s);
  return mx::where(
      is_zero, array(0, norms.dtype()), mx::divide(a, divisors, s), s);
}

// vmap adds one batch axis, in front of every input; an unmapped one (axis -1)
// is repeated, since MLX cannot move the axis of an unmapped output.
std::vector<array> map_to_front(
    const std::vector<array>& inputs,
    const std::vector<int>& axes,
    mx::Stream s) {
  int mapped_size = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (axes[i] >= 0) {
      mapped_size = inputs[i].shape(axes[i]);
    }
  }
  std::vector<array> mapped;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (axes[i] >= 0) {
      mapped.push_back(mx::moveaxis(inputs[i], axes[i], 0, s));
    } else {
      auto shape = inputs[i].shape();
      shape.insert(shape.begin(), mapped_size);
      mapped.push_back(mx::broadcast_to(inputs[i], shape, s));
    }
  }
  return mapped;
}

} // namespace

array max_pool_node(const array& x, const Window& w, mx::Stream s) {
  return node<MaxPool>(
      {output_shape(w, x.shape())}, {x.dtype()}, {contiguous(x, s)}, s, w,
      false)[0];
}

MaxPoolOutputs
max_pool_traced_node(const array& x, const Window& w, mx::Stream s) {
  auto shape = output_shape(w, x.shape());
  auto outputs = node<MaxPool>(
      {shape, shape, extent_shape(x.shape())},
      {x.dtype(), offsets_dtype(w), mx::uint8}, {contiguous(x, s)}, s, w, true);
  return {outputs[0], constant(outputs[1], s), constant(outputs[2], s)};
}

array max_pool_indices_node(
    const array& offsets, const array& extent, const Window& w, mx::Stream s) {
  return node<MaxPoolGather>(
      {offsets.shape()}, {mx::uint32}, {contiguous(offsets, s), extent}, s,
      w)[0];
}

array max_unpool_node(
    const array& x, const array& indices, const Window& w, mx::Stream s) {
  return node<MaxUnpool>(
      {unpooled_shape(w, indices.shape())}, {x.dtype()},
      {contiguous(indices, s), contiguous(x, s)}, s, w)[0];
}

array avg_pool_node(
    const array& x, mx::Dtype dtype, const Window& w, mx::Stream s) {
  return pool_node<AvgPool>(x, dtype, w, s);
}

array lp_pool_node(
    const array& x, int exponent, const Window& w, mx::Stream s) {
  return pool_node<LpPool>(x, x.dtype(), w, s, exponent);
}

array quantized_avg_pool_node(
    const array& x, int32_t zero_point, const Window& w, mx::Stream s) {
  return node<QuantizedAvgPool>(
      {output_shape(w, x.shape())}, {x.dtype()}, {contiguous(x, s)}, s, w,
      zero_point)[0];
}

// MaxPool

bool MaxPool::is_equivalent(const Primitive& other) const {
  return Pooling::is_equivalent(other) &&
      traced_ == static_cast<const MaxPool&>(other).traced_;
}

std::vector<mx::Shape> MaxPool::output_shapes(const Arrays& inputs) {
  auto& x_shape = inputs[0].shape();
  auto shape = checked_output_shape(window_, inputs[0]);
  if (!traced_) {
    return {shape};
  }
  check_offsets(x_shape, window_);
  return {shape, shape, extent_shape(x_shape)};
}

std::vector<array>
MaxPool::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  // jvp is not handed the outputs; compile merges this node with the primal.
  auto saved = max_pool_traced_node(primals[0], window_, stream());
  auto dy = max_pool_gather_node(
      saved.offsets, saved.extent, tangents[0], window_, stream());
  if (!traced_) {
    return {dy};
  }
  return {
      dy, mx::zeros_like(saved.offsets, stream()),
      mx::zeros_like(saved.extent, stream())};
}

std::vector<array> MaxPool::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays& outputs) {
  auto saved = traced_
      ? MaxPoolOutputs{outputs[0], constant(outputs[1], stream()), constant(outputs[2], stream())}
      : max_pool_traced_node(primals[0], window_, stream());
  return {max_pool_scatter_node(
      saved.offsets, saved.extent, cotangents[0], window_, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
MaxPool::vmap(const Arrays& inputs, const Axes& axes) {
  auto x = map_to_front(inputs, axes, stream())[0];
  if (!traced_) {
    return {{max_pool_node(x, window_, stream())}, {0}};
  }
  auto outputs = max_pool_traced_node(x, window_, stream());
  return {{outputs.y, outputs.offsets, outputs.extent}, {0, 0, 0}};
}

// MaxPoolScatter

std::vector<mx::Shape> MaxPoolScatter::output_shapes(const Arrays& inputs) {
  return {input_shape(inputs[1].shape(), inputs[2].shape())};
}

std::vector<array> MaxPoolScatter::jvp(
    const Arrays& primals, const Arrays& tangents, const Axes&) {
  return {max_pool_scatter_node(
      primals[0], primals[1], tangents[0], window_, stream())};
}

std::vector<array> MaxPoolScatter::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays&) {
  return {max_pool_gather_node(
      primals[0], primals[1], cotangents[0], window_, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
MaxPoolScatter::vmap(const Arrays& inputs, const Axes& axes) {
  auto in = map_to_front(inputs, axes, stream());
  return {{max_pool_scatter_node(in[0], in[1], in[2], window_, stream())}, {0}};
}

// MaxPoolGather

std::vector<mx::Shape> MaxPoolGather::output_shapes(const Arrays& inputs) {
  if (inputs.size() == 2) {
    check_plane(inputs[1].shape(), window_);
  }
  return {inputs[0].shape()};
}

std::vector<array>
MaxPoolGather::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  return {max_pool_gather_node(
      primals[0], primals[1], tangents[0], window_, stream())};
}

std::vector<array> MaxPoolGather::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays&) {
  return {max_pool_scatter_node(
      primals[0], primals[1], cotangents[0], window_, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
MaxPoolGather::vmap(const Arrays& inputs, const Axes& axes) {
  auto in = map_to_front(inputs, axes, stream());
  auto out = in.size() == 2
      ? max_pool_indices_node(in[0], in[1], window_, stream())
      : max_pool_gather_node(in[0], in[1], in[2], window_, stream());
  return {{out}, {0}};
}

// MaxUnpool

std::vector<mx::Shape> MaxUnpool::output_shapes(const Arrays& inputs) {
  return {checked_unpooled_shape(window_, inputs[1])};
}

std::vector<array>
MaxUnpool::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  return {max_unpool_node(tangents[0], primals[0], window_, stream())};
}

std::vector<array> MaxUnpool::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays&) {
  return {max_unpool_grad_node(primals[0], cotangents[0], window_, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
MaxUnpool::vmap(const Arrays& inputs, const Axes& axes) {
  auto in = map_to_front(inputs, axes, stream());
  return {{max_unpool_node(in[1], in[0], window_, stream())}, {0}};
}

// MaxUnpoolGrad

std::vector<mx::Shape> MaxUnpoolGrad::output_shapes(const Arrays& inputs) {
  return {inputs[0].shape()};
}

std::vector<array>
MaxUnpoolGrad::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  return {max_unpool_grad_node(primals[0], tangents[0], window_, stream())};
}

std::vector<array> MaxUnpoolGrad::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays&) {
  return {max_unpool_node(cotangents[0], primals[0], window_, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
MaxUnpoolGrad::vmap(const Arrays& inputs, const Axes& axes) {
  auto in = map_to_front(inputs, axes, stream());
  return {{max_unpool_grad_node(in[0], in[1], window_, stream())}, {0}};
}

// AvgPool

bool AvgPool::is_equivalent(const Primitive& other) const {
  auto& average = static_cast<const AvgPool&>(other);
  return Pooling::is_equivalent(other) && dtype_ == average.dtype_ &&
      traced_ == average.traced_;
}

std::vector<mx::Shape> AvgPool::output_shapes(const Arrays& inputs) {
  auto shape = checked_output_shape(window_, inputs[0]);
  if (!traced_) {
    return {shape};
  }
  return {shape, extent_shape(inputs[0].shape())};
}

std::vector<array>
AvgPool::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  auto t = converts(primals[0]) ? mx::astype(tangents[0], dtype_, stream())
                                : averaged(tangents[0], dtype_, stream());
  auto [dy, extent] = traced_node<AvgPool>(t, t.dtype(), window_, stream());
  if (!traced_) {
    return {dy};
  }
  return {dy, mx::zeros_like(extent, stream())};
}

std::vector<array> AvgPool::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays& outputs) {
  auto& x = primals[0];
  auto extent = traced_
      ? constant(outputs[1], stream())
      : traced_node<AvgPool>(x, dtype_, window_, stream()).second;
  auto dx = avg_pool_grad_node(extent, cotangents[0], window_, stream());
  return {converts(x) ? mx::astype(dx, x.dtype(), stream()) : dx};
}

std::pair<std::vector<array>, std::vector<int>>
AvgPool::vmap(const Arrays& inputs, const Axes& axes) {
  auto x = map_to_front(inputs, axes, stream())[0];
  if (!traced_) {
    return {{avg_pool_node(x, dtype_, window_, stream())}, {0}};
  }
  auto [y, extent] = traced_node<AvgPool>(x, dtype_, window_, stream());
  return {{y, extent}, {0, 0}};
}

// AvgPoolGrad

std::vector<mx::Shape> AvgPoolGrad::output_shapes(const Arrays& inputs) {
  return {input_shape(inputs[0].shape(), inputs[1].shape())};
}

std::vector<array>
AvgPoolGrad::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  auto t = averaged(tangents[0], primals[1].dtype(), stream());
  return {avg_pool_grad_node(primals[0], t, window_, stream())};
}

std::vector<array> AvgPoolGrad::vjp(
    const Arrays&, const Arrays& cotangents, const Axes&, const Arrays&) {
  auto& t = cotangents[0];
  return {traced_node<AvgPool>(t, t.dtype(), window_, stream()).first};
}

std::pair<std::vector<array>, std::vector<int>>
AvgPoolGrad::vmap(const Arrays& inputs, const Axes& axes) {
  auto in = map_to_front(inputs, axes, stream());
  return {{avg_pool_grad_node(in[0], in[1], window_, stream())}, {0}};
}

// LpPool

bool LpPool::is_equivalent(const Primitive& other) const {
  return AvgPool::is_equivalent(other) &&
      exponent_ == static_cast<const LpPool&>(other).exponent_;
}

std::vector<mx::Shape> LpPool::output_shapes(const Arrays& inputs) {
  return AvgPool::output_shapes(inputs);
}

std::vector<array>
LpPool::jvp(const Arrays& primals, const Arrays& tangents, const Axes&) {
  auto& x = primals[0];
  auto [y, extent] =
      traced_node<LpPool>(x, dtype_, window_, stream(), exponent_);
  auto products = mx::multiply(lower_power(x), tangents[0], stream());
  auto averages = avg_pool_node(products, products.dtype(), window_, stream());
  auto sums = whole_sums(averages);
  auto dy = over_norms(sums, lower_power(y), stream());
  if (!traced_) {
    return {dy};
  }
  return {dy, mx::zeros_like(extent, stream())};
}

std::vector<array> LpPool::vjp(
    const Arrays& primals,
    const Arrays& cotangents,
    const Axes&,
    const Arrays& outputs) {
  auto& x = primals[0];
  auto [y, extent] = traced_
      ? std::pair(outputs[0], constant(outputs[1], stream()))
      : traced_node<LpPool>(x, dtype_, window_, stream(), exponent_);
  auto shares = whole_sums(over_norms(cotangents[0], lower_power(y), stream()));
  auto sums = avg_pool_grad_node(extent, shares, window_, stream());
  return {mx::multiply(lower_power(x), sums, stream())};
}

std::pair<std::vector<array>, std::vector<int>>
LpPool::vmap(const Arrays& inputs, const Axes& axes) {
  auto x = map_to_front(inputs, axes, stream())[0];
  if (!traced_) {
    return {{lp_pool_node(x, exponent_, window_, stream())}, {0}};
  }
  auto [y, extent] =
      traced_node<LpPool>(x, dtype_, window_, stream(), exponent_);
  return {{y, extent}, {0, 0}};
}

array LpPool::whole_sums(const array& averages) {
  double taps = 1;
  for (auto size : window_.kernel_size) {
    taps *= static_cast<double>(size);
  }
  return mx::multiply(averages, array(taps, averages.dtype()), stream());
}

array LpPool::lower_power(const array& base) {
  // Of mx::square, MLX compiles no second derivative that vmap maps along an
  // axis other than the first.
  return exponent_ == 2 ? base : mx::multiply(base, base, stream());
}

// QuantizedAvgPool

bool QuantizedAvgPool::is_equivalent(const Primitive& other) const {
  return Pooling::is_equivalent(other) &&
      zero_point_ == static_cast<const QuantizedAvgPool&>(other).zero_point_;
}

std::vector<mx::Shape> QuantizedAvgPool::output_shapes(const Arrays& inputs) {
  return {checked_output_shape(window_, inputs[0])};
}

std::vector<array>
QuantizedAvgPool::jvp(const Arrays& primals, const Arrays&, const Axes&) {
  auto shape = output_shape(window_, primals[0].shape());
  return {mx::zeros(shape, primals[0].dtype(), stream())};
}

std::vector<array> QuantizedAvgPool::vjp(
    const Arrays& primals, const Arrays&, const Axes&, const Arrays&) {
  return {mx::zeros_like(primals[0], stream())};
}

std::pair<std::vector<array>, std::vector<int>>
QuantizedAvgPool::vmap(const Arrays& inputs, const Axes& axes) {
  auto x = map_to_front(inputs, axes, stream())[0];
  return {{quantized_avg_pool_node(x, zero_point_, window_, stream())}, {0}};
}

} // namespace mlx_pooling
