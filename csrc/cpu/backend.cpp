#include "backend.h"

#include <algorithm>
#include <atomic>

#include "cpu/allocate.h"
#include "cpu/cache.h"
#include "cpu/clear.h"
#include "cpu/fold.h"
#include "cpu/kernels.h"
#include "cpu/line.h"
#include "cpu/method.h"
#include "cpu/parallel.h"
#include "cpu/quads.h"
#include "cpu/unpool.h"
#include "mlx/backend/cpu/encoder.h"

namespace mlx_pooling {

namespace mx = mlx::core;

namespace {

using mx::array;

template <typename T>
using Kernel = std::type_identity_t<cpu::Kernel<T>*>;

template <typename T>
void run(const T& task, int64_t count, int64_t bytes, Kernel<T> kernel) {
  cpu::parallel_for(count, bytes, [&](int64_t begin, int64_t end) {
    kernel(task, begin, end);
    // Stores around the caches come in no order otherwise.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  });
}

// Bytes of an element, of which complex64 has two.
int64_t element_bytes(const array& a) {
  return a.dtype() == mx::complex64 ? sizeof(float) : a.itemsize();
}

bool is_half(const array& a) {
  return a.dtype() == mx::float16 || a.dtype() == mx::bfloat16;
}

// The same as it is computed: half types as float32.
int64_t lane_bytes(const array& a) {
  return is_half(a) ? sizeof(float) : element_bytes(a);
}

cpu::Elements elements_of(const array& a) {
  auto lane = lane_bytes(a);
  bool is_float = mx::issubdtype(a.dtype(), mx::inexact);
  return {lane, element_bytes(a) < lane, lane == sizeof(float) && is_float};
}

// The bytes of an operation, or as many as are moved in the time that it takes.
int64_t
bytes_or_time(int64_t bytes, const cpu::Choice& choice, int64_t elements) {
  auto computed = choice.cost * static_cast<double>(elements);
  return std::max(bytes, cpu::bytes_moved_in(computed));
}

// One a method; null for those that do not suit the operation.
template <typename T>
struct Reducers {
  cpu::Kernel<T>* walk;
  cpu::Kernel<T>* side_by_side;
  cpu::Kernel<T>* along_rows;
  cpu::Kernel<T>* column_by_column;
  cpu::Kernel<T>* quads_by_column;
  cpu::Kernel<T>* row_by_row;
  cpu::Kernel<T>* sweep;
};

// Whether one's result may be reduced further to that of a larger window.
bool has_stages(const cpu::MaxTask& max) {
  return max.offsets == nullptr;
}
bool has_stages(const cpu::AvgTask& avg) {
  using Val = mx::Dtype::Val;
  bool stores_sums = avg.dtype == Val::float32 || avg.dtype == Val::float64;
  return stores_sums && avg.divisors.is_uniform && avg.exponent == 1;
}

void leave_for_later(cpu::MaxTask&) {}
void leave_for_later(cpu::AvgTask& avg) {
  avg.divisors.of_all = 1;
}

// Planes first, then along depth, so that threads share what there is to do
// and repeat nothing. False where that is no better.
template <typename T>
bool sweep_in_stages(
    const T& task,
    const Geometry& geometry,
    bool of_gradient,
    int64_t bytes,
    Kernel<T> kernel) {
  // What is stored in between should not leave the caches.
  constexpr int64_t kMostBytes = 8 << 20;
  // Fewer elements side by side are joined in another order.
  constexpr int64_t kLeastColumns = 16;
  auto [planes, columns] = cpu::stages(geometry, of_gradient);
  auto positions = of_gradient ? geometry.outputs() : geometry.inputs();
  auto itemsize = task.from_bytes() / (positions * geometry.channels);
  auto between_bytes = itemsize * columns.channels *
      (of_gradient ? columns.outputs() : columns.inputs());
  if (between_bytes > kMostBytes || columns.channels < kLeastColumns) {
    return false;
  }
  array between({static_cast<int>(between_bytes)}, mx::uint8, nullptr, {});
  cpu::allocate(between);
  auto run_stage = [&](T stage, const Geometry& g) {
    stage.links = of_gradient ? cpu::Links::covers(g) : cpu::Links::windows(g);
    stage.channels = g.channels;
    stage.tiling = cpu::Tiling::sweep(
        stage.links, g.batch, g.channels, cpu::threads_for(bytes));
    run(stage, stage.tiling->units(), bytes, kernel);
  };
  auto first = task;
  first.to = between.data<void>();
  first.around_caches = false;
  leave_for_later(first);
  run_stage(std::move(first), planes);
  auto second = task;
  second.from = between.data<void>();
  second.from_end = between.data<char>() + between.nbytes();
  run_stage(std::move(second), columns);
  return true;
}

template <typename T>
void sweep(
    T& task,
    const Geometry& geometry,
    bool of_gradient,
    int64_t bytes,
    Kernel<T> kernel) {
  task.tiling = cpu::Tiling::sweep(
      task.links, geometry.batch, geometry.channels, cpu::threads_for(bytes));
  bool in_stages = task.tiling->repeats_rows() &&
      task.links.axes[0].in_blocks() && has_stages(task) &&
      sweep_in_stages(task, geometry, of_gradient, bytes, kernel);
  if (!in_stages) {
    run(task, task.tiling->units(), bytes, kernel);
  }
}

// Sums or maxima, by the method that suits.
template <typename T>
void reduce(
    T& task,
    const Geometry& geometry,
    const cpu::Elements& elements,
    cpu::Reduction reduction,
    int64_t bytes,
    const Reducers<T>& by) {
  auto channels = geometry.channels;
  auto outputs = geometry.batch;
  for (auto& axis : task.links.axes) {
    outputs *= axis.size();
  }
  auto choice =
      cpu::method_of_reduction(task.links, channels, elements, reduction);
  bytes = bytes_or_time(bytes, choice, outputs * channels);
  task.side_by_side = choice.side_by_side;
  switch (choice.method) {
    case cpu::Method::side_by_side:
      return run(task, outputs, bytes, by.side_by_side);
    case cpu::Method::along_rows:
      return run(task, outputs, bytes, by.along_rows);
    case cpu::Method::column_by_column:
      return run(task, outputs, bytes, by.column_by_column);
    case cpu::Method::quads_by_column: {
      auto quads = cpu::Quads(task.links, channels).of_sample();
      return run(task, geometry.batch * quads, bytes, by.quads_by_column);
    }
    case cpu::Method::sweep:
      return sweep(
          task, geometry, cpu::is_gradient(reduction), bytes, by.sweep);
    case cpu::Method::row_by_row:
      task.tiling =
          cpu::Tiling::row_by_row(outputs, channels, cpu::threads_for(bytes));
      return run(task, task.tiling->units(), bytes, by.row_by_row);
    default:
      return run(task, outputs, bytes, by.walk);
  }
}

// From windows to their inputs. All others get zeros.
template <typename T>
void spread(
    T& task,
    const Geometry& geometry,
    const array& dx,
    const cpu::Choice& choice,
    int64_t bytes,
    Kernel<T> one_by_one,
    Kernel<T> side_by_side) {
  cpu::clear_unlinked(
      task.links, geometry.batch, dx.nbytes() / geometry.inputs(), task.to);
  task.links = cpu::Links::windows(geometry);
  task.side_by_side = choice.side_by_side;
  run(task, geometry.outputs(), bytes,
      choice.method == cpu::Method::spread ? one_by_one : side_by_side);
}

// Whether to store a result around the caches: one that they cannot hold next
// to as much of what it is computed from, if a position's channels make up
// whole lines, since parts of one are slow.
bool goes_around_caches(const array& from, const array& to, int64_t channels) {
  auto bytes = to.nbytes() + std::min(from.nbytes(), to.nbytes());
  return cpu::outgrows_caches(static_cast<int64_t>(bytes)) &&
      channels * element_bytes(to) % cpu::kLineBytes == 0;
}

cpu::Task
task(cpu::Links links, const Geometry& geometry, const array& from, array& to) {
  return {
      std::move(links),
      geometry.channels,
      from.dtype().val(),
      from.data<void>(),
      from.data<char>() + from.nbytes(),
      to.data<void>(),
      goes_around_caches(from, to, geometry.channels)};
}

void average(const Geometry& g, Averaging averaging, const array& x, array& y) {
  bool gives_floats = x.dtype() != y.dtype();
  cpu::AvgTask avg{
      task(cpu::Links::windows(g), g, x, y),
      cpu::Divisors(g, averaging.exponent > 1),
      false,
      averaging.zero_point,
      averaging.exponent,
      gives_floats};
  auto elements = elements_of(x);
  elements.has_alike &= averaging.exponent == 1;
  if (elements.bytes == 1) { // summed as others of 32 bits are
    elements.bytes = sizeof(int32_t);
    elements.is_widened = true;
  }
  auto& kernels = cpu::kernels();
  reduce(
      avg, g, elements, cpu::Reduction::sum, x.nbytes() + y.nbytes(),
      {.walk = kernels.avg_walk,
       .side_by_side = kernels.avg_side_by_side,
       .along_rows = kernels.avg_along_rows,
       .column_by_column = kernels.avg_column_by_column,
       .quads_by_column = nullptr,
       .row_by_row = kernels.avg_row_by_row,
       .sweep = kernels.avg_sweep});
}

mx::Shape items_shape(const Geometry& g, int64_t items, int64_t Axis::* size) {
  mx::Shape shape;
  auto& [depth, height, width] = g.axes;
  for (auto of : {items, depth.*size, height.*size, width.*size, g.channels}) {
    shape.push_back(static_cast<mx::ShapeElem>(of));
  }
  return shape;
}

// Those of a batch that begin with `first`, where they lie.
array items(const array& batch, int64_t first, const mx::Shape& shape) {
  array some(shape, batch.dtype(), nullptr, {});
  auto size = static_cast<int64_t>(some.size());
  some.copy_shared_buffer(
      batch, some.strides(), batch.flags(), size, first * (size / shape[0]));
  return some;
}

// Of integers that are converted, as many items at a time as stay in caches, or
// one.
void average_as_floats(const Geometry& g, const array& x, array& y) {
  constexpr int64_t kMostBytes = 4 << 20;
  auto elements = g.inputs() / g.batch * g.channels; // none, if all is padding
  auto most = std::clamp<int64_t>(
      kMostBytes / std::max<int64_t>(1, elements * sizeof(float)), 1, g.batch);
  array all(items_shape(g, most, &Axis::in), mx::float32, nullptr, {});
  cpu::allocate(all);
  for (int64_t first = 0; first < g.batch; first += most) {
    auto part = g;
    part.batch = std::min(most, g.batch - first);
    auto inputs = items_shape(g, part.batch, &Axis::in);
    auto floats = items(all, 0, inputs);
    auto averages = items(y, first, items_shape(g, part.batch, &Axis::out));
    auto integers = items(x, first, inputs);
    run(
        cpu::Integers{
            x.dtype().val(), integers.data<void>(), floats.data<float>()},
        floats.size(), integers.nbytes() + floats.nbytes(),
        cpu::kernels().to_floats);
    average(cpu::folded(part), {}, floats, averages);
  }
}

class CpuBackend : public Backend {
 public:
  // Runs kernels in the calling thread, or in that of the stream.
  explicit CpuBackend(bool at_once) : at_once_(at_once) {}

  void allocate(array& output) const override {
    cpu::allocate(output);
  }

  void max_pool(
      const Geometry& geometry,
      const array& x,
      array& y,
      array* offsets,
      Stream stream) const override {
    auto offsets_dtype = mx::uint8.val();
    void* offsets_data = nullptr;
    if (offsets != nullptr) {
      offsets_dtype = offsets->dtype().val();
      offsets_data = offsets->data<void>();
    }
    submit(stream, [=, x = held(x), y = held(y)]() mutable {
      auto g = cpu::folded(geometry);
      cpu::MaxTask max{
          task(cpu::Links::windows(g), g, x, y), g.minimum, offsets_dtype,
          offsets_data};
      auto elements = elements_of(x);
      elements.has_alike &= offsets_dtype == mx::uint8.val();
      if (offsets_data == nullptr && is_half(x)) {
        elements.bytes = x.itemsize();
        elements.are_ordered = true;
      }
      auto& kernels = cpu::kernels();
      reduce(
          max, g, elements,
          offsets_data ? cpu::Reduction::winner : cpu::Reduction::maximum,
          x.nbytes() + y.nbytes(),
          {.walk = kernels.max_walk,
           .side_by_side = kernels.max_side_by_side,
           .along_rows = kernels.max_along_rows,
           .column_by_column = kernels.max_column_by_column,
           .quads_by_column = kernels.max_quads_by_column,
           .row_by_row = kernels.max_row_by_row,
           .sweep = kernels.max_sweep});
    });
  }

  void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const override {
    submit(
        stream,
        [=, offsets = held(offsets), dy = held(dy), dx = held(dx)]() mutable {
          auto g = cpu::folded(geometry);
          cpu::MaxTask max{
              task(cpu::Links::covers(g), g, dy, dx), g.minimum,
              offsets.dtype().val(), offsets.data<void>()};
          auto& kernels = cpu::kernels();
          auto choice = cpu::method_of_scatter(
              max.links, g, lane_bytes(dy), offsets.itemsize());
          auto bytes = bytes_or_time(
              offsets.nbytes() + dy.nbytes() + dx.nbytes(), choice, dx.size());
          switch (choice.method) {
            case cpu::Method::spread:
            case cpu::Method::spread_side_by_side:
              return spread(
                  max, g, dx, choice, bytes, kernels.max_scatter_spread,
                  kernels.max_scatter_spread_side_by_side);
            case cpu::Method::place:
              cpu::clear(max.to, dx.nbytes(), max.around_caches);
              max.links = cpu::Links::windows(g);
              return run(max, g.outputs(), bytes, kernels.max_scatter_place);
            case cpu::Method::winners:
              max.tiling = cpu::Tiling::winners(max.links, g.batch, g.channels);
              max.winners.emplace(g);
              return run(
                  max, max.tiling->units(), bytes, kernels.max_scatter_winners);
            case cpu::Method::axis_by_axis:
              return run(
                  max, g.inputs(), bytes, kernels.max_scatter_axis_by_axis);
            default:
              run(max, g.inputs(), bytes, kernels.max_scatter_walk);
          }
        });
  }

  void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const override {
    std::optional<array> values;
    if (t != nullptr) {
      values = held(*t);
    }
    submit(stream, [=, offsets = held(offsets), y = held(y)]() mutable {
      cpu::MaxTask max{
          task(
              cpu::Links::windows(geometry), geometry, values ? *values : y, y),
          geometry.minimum, offsets.dtype().val(), offsets.data<void>()};
      auto& kernels = cpu::kernels();
      run(max, geometry.outputs(), offsets.nbytes() + 2 * y.nbytes(),
          values ? kernels.max_gather : kernels.max_indices);
    });
  }

  void max_unpool(
      const Geometry& geometry,
      const array& indices,
      const array& x,
      array& y,
      Stream stream) const override {
    submit(
        stream,
        [=, indices = held(indices), x = held(x), y = held(y)]() mutable {
          cpu::max_unpool(geometry, indices, x, y);
        });
  }

  void max_unpool_grad(
      const Geometry& geometry,
      const array& indices,
      const array& dy,
      array& dx,
      Stream stream) const override {
    submit(
        stream,
        [=, indices = held(indices), dy = held(dy), dx = held(dx)]() mutable {
          cpu::max_unpool_grad(geometry, indices, dy, dx);
        });
  }

  void avg_pool(
      const Geometry& geometry,
      const array& x,
      Averaging averaging,
      array& y,
      Stream stream) const override {
    submit(stream, [=, x = held(x), y = held(y)]() mutable {
      bool of_bytes = x.itemsize() == 1 && sums_bytes(geometry.taps());
      if (x.dtype() == y.dtype() || of_bytes) {
        return average(cpu::folded(geometry), averaging, x, y);
      }
      average_as_floats(geometry, x, y);
    });
  }

  void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const override {
    submit(stream, [=, dy = held(dy), dx = held(dx)]() mutable {
      auto g = cpu::folded(geometry);
      cpu::AvgTask avg{
          task(cpu::Links::covers(g), g, dy, dx), cpu::Divisors(g, false),
          true};
      auto& kernels = cpu::kernels();
      auto bytes = dy.nbytes() + dx.nbytes();
      auto elements = elements_of(dy);
      elements.has_alike = false;
      auto reduction = avg.divisors.is_uniform
          ? cpu::Reduction::gradient
          : cpu::Reduction::divided_gradient;
      auto choice =
          cpu::method_of_spreading(avg.links, g, elements.bytes, reduction);
      if (choice && choice->method == cpu::Method::fill) {
        return run(avg, g.inputs(), bytes, kernels.avg_grad_fill);
      }
      if (choice) {
        return spread(
            avg, g, dx, *choice, bytes, kernels.avg_grad_spread,
            kernels.avg_grad_spread_side_by_side);
      }
      reduce(
          avg, g, elements, reduction, bytes,
          {.walk = kernels.avg_grad_walk,
           .side_by_side = kernels.avg_side_by_side,
           .along_rows = nullptr,
           .column_by_column = kernels.avg_column_by_column,
           .quads_by_column = nullptr,
           .row_by_row = nullptr,
           .sweep = kernels.avg_sweep});
    });
  }

 private:
  // Keeps the data pointer, not the graph node, as MLX's own ops do.
  array held(const array& a) const {
    return at_once_ ? a : array::unsafe_weak_copy(a);
  }

  template <typename Work>
  void submit(Stream stream, Work work) const {
    if (at_once_) {
      work();
    } else {
      mx::cpu::get_command_encoder(stream).dispatch(std::move(work));
    }
  }

  bool at_once_;
};

} // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend(false);
  return backend;
}

const Backend& cpu_backend_at_once() {
  static const CpuBackend backend(true);
  return backend;
}

} // namespace mlx_pooling
