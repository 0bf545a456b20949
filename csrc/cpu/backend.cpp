#include "backend.h"

#include "cpu/fold.h"
#include "cpu/gather.h"
#include "cpu/kernels.h"
#include "cpu/method.h"
#include "cpu/parallel.h"
#include "cpu/unpool.h"
#include "mlx/backend/cpu/encoder.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

using mx::array;

template <typename T>
using Kernel =
    std::type_identity_t<void (*)(const T& task, int64_t begin, int64_t end)>;

template <typename T>
void run(
    const T& task,
    int64_t positions,
    int64_t bytes,
    Kernel<T> walk,
    Kernel<T> by_units) {
  auto kernel = task.tiling ? by_units : walk;
  auto count = task.tiling ? task.tiling->units() : positions;
  cpu::parallel_for(count, bytes, [&](int64_t begin, int64_t end) {
    kernel(task, begin, end);
  });
}

cpu::Task
task(cpu::Links links, const Geometry& geometry, const array& from, array& to) {
  return {std::move(links),  geometry.channels, from.dtype().val(),
          from.data<void>(), to.data<void>(),   std::nullopt};
}

void choose_sweep(cpu::Task& task, const Geometry& geometry, bool with_taps) {
  auto method = cpu::method_of_reduction(task.links, with_taps);
  if (method == cpu::Method::sweep) {
    task.tiling =
        cpu::Tiling::sweep(task.links, geometry.batch, geometry.channels);
  }
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
      auto g = cpu::folded(geometry);
      cpu::MaxTask max{
          task(cpu::Links::windows(g), g, x, y), g.minimum, offsets_dtype,
          offsets_data, std::nullopt};
      choose_sweep(max, g, offsets_data != nullptr);
      run(max, g.outputs(), x.nbytes() + y.nbytes(), cpu::kernels().max_pool,
          cpu::kernels().max_sweep);
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
          auto g = cpu::folded(geometry);
          cpu::MaxTask max{
              task(cpu::Links::covers(g), g, dy, dx), g.minimum,
              offsets.dtype().val(), offsets.data<void>(), std::nullopt};
          if (method_of_scatter(max.links, g) == cpu::Method::winners) {
            max.tiling = cpu::Tiling::winners(max.links, g.batch, g.channels);
            max.winners.emplace(g);
          }
          run(max, g.inputs(), offsets.nbytes() + dy.nbytes() + dx.nbytes(),
              cpu::kernels().max_pool_scatter, cpu::kernels().max_pool_winners);
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
      auto g = cpu::folded(geometry);
      cpu::AvgTask avg{
          task(cpu::Links::windows(g), g, x, y), cpu::Divisor(g), false};
      choose_sweep(avg, g, false);
      run(avg, g.outputs(), x.nbytes() + y.nbytes(), cpu::kernels().avg_pool,
          cpu::kernels().avg_sweep);
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
      auto g = cpu::folded(geometry);
      cpu::AvgTask avg{
          task(cpu::Links::covers(g), g, dy, dx), cpu::Divisor(g), true};
      choose_sweep(avg, g, false);
      run(avg, g.inputs(), dy.nbytes() + dx.nbytes(),
          cpu::kernels().avg_pool_grad, cpu::kernels().avg_sweep);
    });
  }
};

} // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

} // namespace mlx_pooling
