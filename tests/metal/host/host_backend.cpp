// Puts the Metal backend, on the host encoder, in the place of the CPU backend
// when asked to, and tells the tests what its launches did.

#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include "backend.h"
#include "cuda.h"
#include "host_encoder.h"
#include "metal/library.h"
#include "metal/occupancy.h"
#include "metal/plan.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace mlx_pooling {

// csrc/cpu/backend.cpp, compiled under this name.
const Backend& real_cpu_backend();

// Metal has no float64, nor do users ever send it there.
const Backend& backend_for(const mlx::core::array& x) {
  bool runs_shaders =
      metal::settings().run_shaders && x.dtype() != mlx::core::float64;
  return runs_shaders ? metal_backend() : real_cpu_backend();
}

class HostBackend : public Backend {
  void max_pool(
      const Geometry& geometry,
      const array& x,
      array& y,
      array* offsets,
      Stream stream) const override {
    backend_for(x).max_pool(geometry, x, y, offsets, stream);
  }

  void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const override {
    backend_for(dy).max_pool_scatter(geometry, offsets, dy, dx, stream);
  }

  void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const override {
    backend_for(y).max_pool_gather(geometry, offsets, t, y, stream);
  }

  void max_unpool(
      const Geometry& geometry,
      const array& indices,
      const array& x,
      array& y,
      Stream stream) const override {
    backend_for(x).max_unpool(geometry, indices, x, y, stream);
  }

  void max_unpool_grad(
      const Geometry& geometry,
      const array& indices,
      const array& dy,
      array& dx,
      Stream stream) const override {
    backend_for(dy).max_unpool_grad(geometry, indices, dy, dx, stream);
  }

  void avg_pool(
      const Geometry& geometry,
      const array& x,
      Averaging averaging,
      array& y,
      Stream stream) const override {
    backend_for(x).avg_pool(geometry, x, averaging, y, stream);
  }

  void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const override {
    backend_for(dy).avg_pool_grad(geometry, dy, dx, stream);
  }
};

const Backend& cpu_backend() {
  static const HostBackend backend;
  return backend;
}

namespace metal {

Settings& settings() {
  static Settings settings;
  return settings;
}

int64_t busy_threads() {
  return settings().as_released ? kBusyThreads : 16;
}

int64_t few_threads() {
  return settings().as_released ? kFewThreads : 4;
}

int64_t many_threads() {
  return settings().as_released ? kManyThreads : 4;
}

namespace {

template <typename Values>
void write_list(std::ostream& out, const Values& values) {
  const char* separator = "[";
  for (auto value : values) {
    out << separator << value;
    separator = ", ";
  }
  out << "]";
}

void write_members(std::ostream& out, const Launch& launch) {
  out << "\"kernel\": \"" << launch.kernel << "\", \"name\": \""
      << launch.name() << "\", \"ready\": " << std::boolalpha
      << is_ready(launch) << ", \"grid\": ";
  write_list(out, launch.grid);
  out << ", \"threadgroup\": ";
  write_list(out, launch.threadgroup);
  out << ", \"least_threadgroup\": ";
  write_list(out, launch.threadgroup_within(32));
  out << ", \"constants\": ";
  write_list(out, launch.constants);
  out << ", \"in\": ";
  write_list(out, launch.params.in);
  out << ", \"out\": ";
  write_list(out, launch.params.out);
  out << ", \"x_step\": ";
  write_list(out, launch.params.x.step);
  out << ", \"y_step\": ";
  write_list(out, launch.params.y.step);
  out << ", \"results_first\": ";
  write_list(out, launch.params.results.first);
  out << ", \"results_size\": ";
  write_list(out, launch.params.results.size);
  out << ", \"first_item\": " << launch.params.first_item
      << ", \"first_plane\": " << launch.params.first_plane
      << ", \"slices\": " << launch.params.slices;
}

void write(std::ostream& out, const Launch& launch) {
  out << "{";
  write_members(out, launch);
  out << "}";
}

void write(std::ostream& out, const Record& record) {
  out << "{";
  write_members(out, record.launch);
  out << ", \"error\": \"" << record.error
      << "\", \"milliseconds\": " << record.milliseconds << ", \"buffers\": [";
  const char* separator = "";
  for (auto& t : record.traffic) {
    bool is_temporary = t.array >= kFirstTemporary;
    out << separator << "{\"temporary\": " << (is_temporary ? "true" : "false")
        << ", \"loads\": " << t.loads << ", \"stores\": " << t.stores
        << ", \"bytes\": " << t.bytes << "}";
    separator = ", ";
  }
  out << "]}";
}

mlx::core::Dtype dtype_named(const std::string& name) {
  namespace mx = mlx::core;
  static const std::map<std::string, mx::Dtype> dtypes = {
      {"bool_", mx::bool_},        {"uint8", mx::uint8},
      {"uint16", mx::uint16},      {"uint32", mx::uint32},
      {"uint64", mx::uint64},      {"int8", mx::int8},
      {"int16", mx::int16},        {"int32", mx::int32},
      {"int64", mx::int64},        {"float16", mx::float16},
      {"bfloat16", mx::bfloat16},  {"float32", mx::float32},
      {"complex64", mx::complex64}};
  return dtypes.at(name);
}

Plan plan_named(
    const std::string& op,
    const Geometry& g,
    Operand x,
    Operand y,
    const Operand* offsets) {
  if (op == "max_pool") {
    return plan_max_pool(g, x, y, offsets);
  }
  if (op == "max_pool_scatter") {
    return plan_max_pool_scatter(g, *offsets, y, x);
  }
  if (op == "max_pool_gather") {
    return plan_max_pool_gather(g, *offsets, y, true);
  }
  if (op == "max_unpool") {
    return plan_max_unpool(g, x);
  }
  if (op == "max_unpool_grad") {
    return plan_max_unpool_grad(g, y);
  }
  return op == "avg_pool_grad" ? plan_avg_pool_grad(g, y, x)
                               : plan_avg_pool(g, x, {}, y);
}

template <typename Items>
void write_items(std::ostream& out, const Items& items) {
  const char* separator = "[";
  for (auto& item : items) {
    out << separator;
    write(out, item);
    separator = ",\n";
  }
  out << (items.empty() ? "[]" : "]");
}

int64_t temporary_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (auto& temporary : plan.temporaries) {
    bytes += std::accumulate(
        temporary.shape.begin(), temporary.shape.end(),
        int64_t{mlx::core::size_of(temporary.dtype)}, std::multiplies<>());
  }
  return bytes;
}

void write(std::ostream& out, const Plan& plan) {
  out << "{\"temporary_bytes\": " << temporary_bytes(plan)
      << ", \"launches\": ";
  write_items(out, plan.launches);
  out << "}";
}

// For the caller to read before it asks again.
const char* kept(std::string text) {
  static std::string last;
  last = std::move(text);
  return last.c_str();
}

} // namespace
} // namespace metal
} // namespace mlx_pooling

using namespace mlx_pooling;

EXPORTED void run_shaders(bool run, int order) {
  auto& settings = metal::settings();
  settings.run_shaders = run;
  settings.order = static_cast<metal::Order>(order);
}

// Launches go to an NVIDIA GPU from now on, and are timed in so many repeats of
// five; returns why not, "" if they do.
EXPORTED const char* use_cuda(int repeats) {
  try {
    metal::require_cuda();
  } catch (const std::exception& error) {
    return metal::kept(error.what());
  }
  metal::settings().on_cuda = true;
  metal::settings().repeats = repeats;
  return "";
}

EXPORTED const char* cuda_device() {
  return metal::kept(metal::cuda_device());
}

EXPORTED double cuda_copy_bandwidth() {
  return metal::cuda_copy_bandwidth();
}

EXPORTED void plan_as_released(bool as_released) {
  metal::settings().as_released = as_released;
}

// Of arrays that launches are to find far behind where they believe the first
// element; 0: they are given arrays as they are.
EXPORTED void set_items_ahead(int64_t items) {
  metal::settings().items = items;
}

// The launches since the last call, as JSON.
EXPORTED const char* take_records() {
  std::ostringstream out;
  metal::write_items(out, metal::settings().records);
  metal::settings().records.clear();
  return metal::kept(out.str());
}

namespace {

metal::Plan& last_plan() {
  static metal::Plan plan;
  return plan;
}

} // namespace

// What an operation would take, as JSON; nothing is allocated. `shape` is that
// of x: (N, *spatial, C). `windows` has a row each for kernel size, stride, low
// and high padding and dilation; of "adaptive", one for the output size.
EXPORTED const char* plan(
    const char* op,
    const char* dtype,
    const char* offsets_dtype, // "": none
    int axes,
    const int64_t* shape,
    const int64_t* windows,
    int64_t byte_offset) {
  auto row = [&](int i) {
    return Window::Sizes(windows + i * axes, windows + (i + 1) * axes);
  };
  const std::string adaptive = "adaptive_";
  bool is_adaptive = std::string(op).starts_with(adaptive);
  auto window = is_adaptive
      ? Window::adaptive("plan", {windows, windows + axes})
      : Window("plan", row(0), row(1), row(2), row(3), row(4));
  Geometry geometry(window, mlx::core::Shape(shape, shape + axes + 2));
  metal::Operand x{metal::dtype_named(dtype), byte_offset};
  bool gives_floats = std::string(op) == "avg_pool_of_integers";
  metal::Operand y{gives_floats ? mlx::core::float32 : x.dtype};
  std::optional<metal::Operand> offsets;
  if (*offsets_dtype != '\0') {
    offsets = metal::Operand{metal::dtype_named(offsets_dtype)};
  }
  last_plan() = metal::plan_named(
      op + (is_adaptive ? adaptive.size() : 0), geometry, x, y,
      offsets ? &*offsets : nullptr);
  std::ostringstream out;
  metal::write(out, last_plan());
  return metal::kept(out.str());
}

// Of a launch of the last plan.
EXPORTED const char* cuda_source(int launch) {
  auto& planned = last_plan().launches.at(launch);
  return metal::kept(metal::cuda_source(planned, planned.source()));
}

// The ahead-of-time library beside this one, "" where there is none.
EXPORTED const char* ready_library() {
  return metal::kept(metal::ready_library().value_or(""));
}
