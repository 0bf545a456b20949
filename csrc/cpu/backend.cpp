#include "backend.h"

#include "cpu/gather.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/unpool.h"
#include "mlx/backend/cpu/encoder.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

using mx::array;

template <typename T>
using Kernel = void (*)(const T& task, int64_t begin, int64_t end);

template <typename T>
void run(Kernel<T> kernel, const T& task, int64_t positions, int64_t bytes) {
  cpu::parallel_for(positions, bytes, [&](int64_t begin, int64_t end) {
    kernel(task, begin, end);
  });
}

cpu::Task
task(cpu::Links links, const Geometry& geometry, const array& from, array& to) {
  return {
      std::move(links), geometry.channels, from.dtype().val(),
      from.data<void>(), to.data<void>()};
}

// Keeps the data pointer, not the graph node, as MLX's own ops do.
array weak(const array& a) {
  return array::unsafe_weak_copy(a);
}

class CpuBackend : public Backend {
 public:
  void max_pool(
      const Geometry& geometry,
      const array& x,
      array& y,
      array* offsets,
      Stream stream) const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(x);
    encoder.set_output_array(y);
    auto offsets_dtype = mx::uint8.val();
    void* offsets_data = nullptr;
    if (offsets != nullptr) {
      encoder.set_output_array(*offsets);
      offsets_dtype = offsets->dtype().val();
      offsets_data = offsets->data<void>();
    }
    encoder.dispatch([=, x = weak(x), y = weak(y)]() mutable {
      run(cpu::kernels().max_pool,
          {task(cpu::Links::windows(geometry), geometry, x, y),
           geometry.minimum, offsets_dtype, offsets_data},
          geometry.outputs(), x.nbytes() + y.nbytes());
    });
  }

  void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(offsets);
    encoder.set_input_array(dy);
    encoder.set_output_array(dx);
    encoder.dispatch(
        [=, offsets = weak(offsets), dy = weak(dy), dx = weak(dx)]() mutable {
          run(cpu::kernels().max_pool_scatter,
              {task(cpu::Links::covers(geometry), geometry, dy, dx),
               geometry.minimum, offsets.dtype().val(), offsets.data<void>()},
              geometry.inputs(), offsets.nbytes() + dy.nbytes() + dx.nbytes());
        });
  }

  void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(offsets);
    std::optional<array> values;
    if (t != nullptr) {
      encoder.set_input_array(*t);
      values = weak(*t);
    }
    encoder.set_output_array(y);
    encoder.dispatch([=, offsets = weak(offsets), y = weak(y)]() mutable {
      cpu::max_pool_gather(geometry, offsets, values ? &*values : nullptr, y);
    });
  }

  void unpool_routes(
      const Geometry& geometry,
      const array& indices,
      array& sources,
      array& targets,
      Stream stream) const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(indices);
    encoder.set_output_array(sources);
    encoder.set_output_array(targets);
    encoder.dispatch([=, indices = weak(indices), sources = weak(sources),
                      targets = weak(targets)]() mutable {
      cpu::unpool_routes(
          geometry, indices.data<uint32_t>(), sources.data<uint32_t>(),
          targets.data<uint32_t>());
    });
  }

  void
  avg_pool(const Geometry& geometry, const array& x, array& y, Stream stream)
      const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(x);
    encoder.set_output_array(y);
    encoder.dispatch([=, x = weak(x), y = weak(y)]() mutable {
      run(cpu::kernels().avg_pool,
          {task(cpu::Links::windows(geometry), geometry, x, y),
           cpu::Divisor(geometry)},
          geometry.outputs(), x.nbytes() + y.nbytes());
    });
  }

  void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const override {
    auto& encoder = mx::cpu::get_command_encoder(stream);
    encoder.set_input_array(dy);
    encoder.set_output_array(dx);
    encoder.dispatch([=, dy = weak(dy), dx = weak(dx)]() mutable {
      run(cpu::kernels().avg_pool_grad,
          {task(cpu::Links::covers(geometry), geometry, dy, dx),
           cpu::Divisor(geometry)},
          geometry.inputs(), dy.nbytes() + dx.nbytes());
    });
  }
};

} // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

} // namespace mlx_pooling
