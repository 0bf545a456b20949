#include "backend.h"

#include <stdexcept>

#include "metal/encoder.h"
#include "metal/launches.h"
#include "metal/plan.h"
#include "mlx/backend/metal/metal.h"

namespace mlx_pooling {

namespace {

using metal::Operand;
using mlx::core::array;

Operand operand(const array& a) {
  return {a.dtype(), a.offset()};
}

// What views bytes as larger elements may begin anywhere.
void check_alignment(const array& a) {
  if (a.offset() % metal::element_bytes(a.dtype()) != 0) {
    throw std::invalid_argument(
        "[mlx_pooling] an array begins inside of an element of its buffer, "
        "where a GPU cannot read it: pool a copy.");
  }
}

void run(
    const metal::Plan& plan,
    std::vector<const array*> arrays,
    mlx::core::Stream stream) {
  for (auto* a : arrays) {
    if (a != nullptr) {
      check_alignment(*a);
    }
  }
  std::vector<array> temporaries;
  temporaries.reserve(plan.temporaries.size());
  arrays.resize(metal::kFirstTemporary);
  for (auto& [dtype, shape] : plan.temporaries) {
    temporaries.push_back(metal::temporary(dtype, shape, stream));
    arrays.push_back(&temporaries.back());
  }
  for (auto& launch : plan.launches) {
    std::vector<metal::Binding> bindings;
    for (auto& [number, access] : launch.buffers) {
      bool is_bound = number != metal::kNoArray;
      bindings.push_back({is_bound ? arrays[number] : nullptr, access});
    }
    metal::encode(launch, bindings, stream);
  }
}

class MetalBackend : public Backend {
 public:
  void max_pool(
      const Geometry& geometry,
      const array& x,
      array& y,
      array* offsets,
      Stream stream) const override {
    auto taps = operand(offsets ? *offsets : y);
    run(metal::plan_max_pool(
            geometry, operand(x), operand(y), offsets ? &taps : nullptr),
        {&x, &y, offsets}, stream);
  }

  void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const override {
    run(metal::plan_max_pool_scatter(
            geometry, operand(offsets), operand(dy), operand(dx)),
        {&offsets, &dy, &dx}, stream);
  }

  void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const override {
    run(metal::plan_max_pool_gather(
            geometry, operand(offsets), operand(y), t != nullptr),
        {&offsets, &y, t}, stream);
  }

  void max_unpool(
      const Geometry& geometry,
      const array& indices,
      const array& x,
      array& y,
      Stream stream) const override {
    run(metal::plan_max_unpool(geometry, operand(y)), {&indices, &x, &y},
        stream);
  }

  void max_unpool_grad(
      const Geometry& geometry,
      const array& indices,
      const array& dy,
      array& dx,
      Stream stream) const override {
    run(metal::plan_max_unpool_grad(geometry, operand(dx)),
        {&indices, &dy, &dx}, stream);
  }

  void avg_pool(
      const Geometry& geometry,
      const array& x,
      Averaging averaging,
      array& y,
      Stream stream) const override {
    run(metal::plan_avg_pool(geometry, operand(x), averaging, operand(y)),
        {&x, &y}, stream);
  }

  void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const override {
    run(metal::plan_avg_pool_grad(geometry, operand(dy), operand(dx)),
        {&dy, &dx}, stream);
  }
};

} // namespace

bool has_kernels(mlx::core::Device device) {
  return device == mlx::core::Device::cpu || mlx::core::metal::is_available();
}

const Backend& metal_backend() {
  static const MetalBackend backend;
  return backend;
}

} // namespace mlx_pooling
