#include "at_once.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <typeinfo>

#include "cpu/parallel.h"

namespace mlx_pooling {

namespace mx = mlx::core;
using mx::array;

namespace {

// Nanoseconds of each thread that its bytes alone are worth: some operations
// have no others. To hand work to another thread and wait for it takes MLX
// 25,000 to 70,000.
#if !defined(MLX_POOLING_SMALL_WORK)
#define MLX_POOLING_SMALL_WORK 150000
#endif
constexpr double kSmallWork = MLX_POOLING_SMALL_WORK;
// Of one vector, or of one element alone.
constexpr double kVisit = 3;
constexpr double kTap = 0.5;
// More taps of a window along an axis are those that others share.
constexpr int64_t kMostTaps = 8;
constexpr int64_t kWidestVector = 64;
// About so many elements share a vector with those of other positions, where
// there are few channels.
constexpr double kShared = 4;

int64_t size_of(const mx::Shape& shape) {
  return std::accumulate(
      shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

const array& largest(const std::vector<array>& arrays) {
  return *std::max_element(arrays.begin(), arrays.end(), [](auto& a, auto& b) {
    return a.size() < b.size();
  });
}

// Of all windows that share an input out among them. Along an axis two
// neighbours have one in common unless the next begins where the first ends.
double adaptive_taps(const mx::Shape& from, const mx::Shape& to) {
  double taps = 1;
  for (int i = 0; i + 1 < static_cast<int>(to.size()); ++i) {
    taps *= static_cast<double>(from[i]) + to[i] - std::gcd(from[i], to[i]);
  }
  return taps;
}

// Of each window, at most, where others share what it has in common with them:
// one axis after the other.
double taps_by_axis(const Window::Sizes& kernel_size) {
  int64_t taps = 0;
  for (auto size : kernel_size) {
    taps += std::min(size, kMostTaps);
  }
  return static_cast<double>(taps);
}

double
taps_of(const Pooling& pooling, const array& input, const mx::Shape& output) {
  auto channels = static_cast<double>(output.back());
  auto from = static_cast<double>(input.size()) / channels;
  auto to = static_cast<double>(size_of(output)) / channels;
  auto windows = std::min(from, to);
  if (typeid(pooling) == typeid(MaxPoolGather)) {
    return windows;
  }
  auto& window = pooling.window();
  if (window.kind == Window::Kind::adaptive) {
    return adaptive_taps(input.shape(), output);
  }
  return std::min(
      windows * static_cast<double>(window.taps()),
      std::max(from, to) + windows * taps_by_axis(window.kernel_size));
}

// Whether each element is looked up where its own index says. That of
// MaxPoolGather's indices is computed from its offset.
bool goes_alone(const std::type_info& primitive, size_t inputs) {
  return (primitive == typeid(MaxPoolGather) && inputs > 2) ||
      primitive == typeid(MaxUnpool) || primitive == typeid(MaxUnpoolGrad);
}

// Vectors, or elements alone, of a position.
double visits(bool go_alone, int64_t channels, int64_t lanes) {
  if (go_alone) {
    return static_cast<double>(channels);
  }
  if (channels >= lanes) {
    return static_cast<double>(ceil_div(channels, lanes));
  }
  return static_cast<double>(channels) / kShared;
}

// About how long an operation takes, on a CPU with wide vectors.
double work(
    const Pooling& pooling,
    const std::vector<array>& inputs,
    const mx::Shape& shape,
    mx::Dtype dtype) {
  int64_t channels = shape.back();
  auto positions = static_cast<double>(size_of(shape) / channels);
  auto taps = taps_of(pooling, largest(inputs), shape);
  // At least as wide as a float.
  auto lanes = kWidestVector / std::max<int64_t>(mx::size_of(dtype), 4);
  return (kVisit * positions + kTap * taps) *
      visits(goes_alone(typeid(pooling), inputs.size()), channels, lanes);
}

bool is_small(
    Pooling& pooling,
    const std::vector<array>& inputs,
    const mx::Shape& shape,
    mx::Dtype dtype) {
  auto size = size_of(shape);
  if (pooling.stream().device != mx::Device::cpu || size == 0) {
    return false;
  }
  auto bytes = size * mx::size_of(dtype);
  for (auto& input : inputs) {
    bytes += static_cast<int64_t>(input.nbytes());
  }
  return work(pooling, inputs, shape, dtype) <=
      kSmallWork * static_cast<double>(cpu::threads_for(bytes));
}

// Whether the primitive's output is its input, if that is row-contiguous.
bool passes_on(const mx::Primitive& primitive) {
  std::string_view name = primitive.name();
  return name == "Contiguous" || name == "Copy" || name == "StopGradient";
}

bool is_side_output(const array& a) {
  return dynamic_cast<Pooling*>(&a.primitive()) != nullptr &&
      a.outputs()[0].id() != a.id();
}

// Whether a function is being transformed, which libmlx does not export but
// shows by whether it takes an array that is marked as a tracer for one. Arrays
// need the graph they come from then, tracers or not: a transformation inside
// of another one takes that mark away.
bool in_transformation() {
  thread_local const array probe = [] {
    array a(false);
    a.set_tracer(true);
    return a;
  }();
  return probe.is_tracer();
}

// The values of `a`, if they are there already. Not those that still have the
// graph they come from, except offsets and extents: a loop over transformed
// functions of their own results would keep all of them.
std::optional<array> settled(array a) {
  std::vector<array> passed;
  while (a.has_primitive() && passes_on(a.primitive())) {
    passed.push_back(a);
    a = array(passed.back().inputs()[0]);
  }
  bool is_free = !a.has_primitive() || is_side_output(a);
  if (!is_free || !a.is_available() || !a.flags().row_contiguous) {
    return std::nullopt;
  }
  // MLX takes it that what evaluated arrays come from is evaluated too.
  for (auto on = passed.rbegin(); on != passed.rend(); ++on) {
    if (on->status() == array::Status::unscheduled) {
      on->copy_shared_buffer(a);
      on->set_status(array::Status::available);
    }
    if (!in_transformation()) {
      on->detach();
    }
  }
  return a;
}

std::optional<std::vector<array>>
all_settled(const std::vector<array>& inputs) {
  std::vector<array> all;
  all.reserve(inputs.size());
  for (auto& input : inputs) {
    auto values = settled(input);
    if (!values) {
      return std::nullopt;
    }
    all.push_back(std::move(*values));
  }
  return all;
}

} // namespace

std::vector<array> outputs_of(
    const std::shared_ptr<Pooling>& pooling,
    const std::vector<mx::Shape>& shapes,
    const std::vector<mx::Dtype>& dtypes,
    const std::vector<array>& inputs) {
  std::optional<std::vector<array>> values;
  if (is_small(*pooling, inputs, shapes[0], dtypes[0])) {
    values = all_settled(inputs);
  }
  if (!values) {
    return array::make_arrays(shapes, dtypes, pooling, inputs);
  }
  std::vector<array> outputs;
  if (in_transformation()) {
    outputs = array::make_arrays(shapes, dtypes, pooling, inputs);
  } else {
    outputs.reserve(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      outputs.emplace_back(shapes[i], dtypes[i], nullptr, Pooling::Arrays{});
    }
  }
  pooling->eval(cpu_backend_at_once(), *values, outputs);
  for (auto& output : outputs) {
    output.set_status(array::Status::available);
  }
  return outputs;
}

} // namespace mlx_pooling
