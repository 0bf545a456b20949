#include <algorithm>

#include "primitives.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

bool allocate(const Backend& on, std::vector<array>& outputs) {
  for (auto& output : outputs) {
    on.allocate(output);
  }
  return std::any_of(outputs.begin(), outputs.end(), [](auto& output) {
    return output.size() > 0;
  });
}

// Whether each window is the one element in its own place of an input that the
// output can be. As mx.contiguous() does, an array that others may write to is
// copied, and so is a small part of a large buffer, which would be kept.
bool are_same(const Window& window, const array& input, const array& output) {
  constexpr size_t kMostBesides = 16 * 1024;
  return input.shape() == output.shape() && input.dtype() == output.dtype() &&
      output.size() > 0 && input.data_shared_ptr()->is_owned() &&
      input.buffer_size() <= output.nbytes() + kMostBesides &&
      Geometry(window, output.shape()).passes_through();
}

// complex64 is averaged as pairs of real channels.
Geometry geometry_of_parts(
    const Window& window, const mx::Shape& x_shape, mx::Dtype dtype) {
  Geometry geometry(window, x_shape);
  if (dtype == mx::complex64) {
    geometry.channels *= 2;
  }
  return geometry;
}

} // namespace

void Pooling::eval(const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto same = identity_input();
  if (same && are_same(window_, inputs[*same], outputs[0])) {
    outputs[0].copy_shared_buffer(inputs[*same]);
    for (size_t i = 1; i < outputs.size(); ++i) { // extents
      on.allocate(outputs[i]);
    }
  } else if (allocate(on, outputs)) {
    run(on, inputs, outputs);
  }
}

void Pooling::eval_cpu(const Arrays& inputs, Arrays& outputs) {
  eval(cpu_backend(), inputs, outputs);
}

void Pooling::eval_gpu(const Arrays& inputs, Arrays& outputs) {
  eval(metal_backend(), inputs, outputs);
}

void MaxPool::run(const Backend& on, const Arrays& inputs, Arrays& outputs) {
  Geometry geometry(window_, inputs[0].shape());
  on.max_pool(
      geometry, inputs[0], outputs[0], traced_ ? &outputs[1] : nullptr,
      stream());
}

void MaxPoolScatter::run(
    const Backend& on, const Arrays& inputs, Arrays& outputs) {
  Geometry geometry(window_, outputs[0].shape());
  on.max_pool_scatter(geometry, inputs[0], inputs[2], outputs[0], stream());
}

void MaxPoolGather::run(
    const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& offsets = inputs[0];
  Geometry geometry(window_, input_shape(inputs[1].shape(), offsets.shape()));
  on.max_pool_gather(
      geometry, offsets, inputs.size() == 3 ? &inputs[2] : nullptr, outputs[0],
      stream());
}

void MaxUnpool::run(const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& indices = inputs[0];
  auto geometry = Geometry::whole(
      outputs[0].shape(), indices.shape(), window_.spatial_axes());
  on.max_unpool(geometry, indices, inputs[1], outputs[0], stream());
}

void MaxUnpoolGrad::run(
    const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& dy = inputs[1];
  auto geometry =
      Geometry::whole(dy.shape(), inputs[0].shape(), window_.spatial_axes());
  on.max_unpool_grad(geometry, inputs[0], dy, outputs[0], stream());
}

void AvgPool::run(const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& x = inputs[0];
  auto geometry = geometry_of_parts(window_, x.shape(), x.dtype());
  on.avg_pool(geometry, x, {}, outputs[0], stream());
}

void QuantizedAvgPool::run(
    const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& x = inputs[0];
  Geometry geometry(window_, x.shape());
  on.avg_pool(geometry, x, {.zero_point = zero_point_}, outputs[0], stream());
}

void LpPool::run(const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& x = inputs[0];
  Geometry geometry(window_, x.shape());
  on.avg_pool(geometry, x, {.exponent = exponent_}, outputs[0], stream());
}

void AvgPoolGrad::run(
    const Backend& on, const Arrays& inputs, Arrays& outputs) {
  auto& dx = outputs[0];
  auto geometry = geometry_of_parts(window_, dx.shape(), dx.dtype());
  on.avg_pool_grad(geometry, inputs[1], dx, stream());
}

} // namespace mlx_pooling
