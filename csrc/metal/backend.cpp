#include "backend.h"

#include "metal/encoder.h"
#include "metal/plan.h"
#include "mlx/backend/metal/metal.h"

namespace mlx_pooling {

namespace {

using metal::Access;
using metal::Operand;
using mlx::core::array;

Operand operand(const array& a) {
  return {a.dtype(), a.offset()};
}

void encode_all(
    const std::vector<metal::Launch>& launches,
    const std::vector<metal::Binding>& bindings,
    mlx::core::Stream stream) {
  for (auto& launch : launches) {
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
    encode_all(
        metal::plan_max_pool(
            geometry, operand(x), operand(y), offsets ? &taps : nullptr),
        {{&x}, {&y, Access::write}, {offsets, Access::write}}, stream);
  }

  void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const override {
    encode_all(
        metal::plan_max_pool_scatter(
            geometry, operand(offsets), operand(dy), operand(dx)),
        {{&offsets}, {&dy}, {&dx, Access::write}}, stream);
  }

  void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const override {
    encode_all(
        metal::plan_max_pool_gather(
            geometry, operand(offsets), operand(y), t != nullptr),
        {{&offsets}, {&y, Access::write}, {t}}, stream);
  }

  void unpool_routes(
      const Geometry& geometry,
      const array& indices,
      array& sources,
      array& targets,
      Stream stream) const override {
    auto launches = metal::plan_unpool_routes(geometry);
    encode_all(launches.clear, {{&sources, Access::write}}, stream);
    encode_all(
        launches.claim, {{&indices}, {&sources, Access::update}}, stream);
    encode_all(
        launches.settle, {{&indices}, {&sources}, {&targets, Access::write}},
        stream);
  }

  void
  avg_pool(const Geometry& geometry, const array& x, array& y, Stream stream)
      const override {
    encode_all(
        metal::plan_avg_pool(geometry, operand(x), operand(y)),
        {{&x}, {&y, Access::write}}, stream);
  }

  void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const override {
    encode_all(
        metal::plan_avg_pool_grad(geometry, operand(dy), operand(dx)),
        {{&dy}, {&dx, Access::write}}, stream);
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
