// Puts the Metal backend, on the host encoder, in the place of the CPU backend
// when asked to, and tells the tests what its launches did.

#include <sstream>

#include "backend.h"
#include "host_encoder.h"
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

  void
  avg_pool(const Geometry& geometry, const array& x, array& y, Stream stream)
      const override {
    backend_for(x).avg_pool(geometry, x, y, stream);
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

void write(std::ostream& out, const Launch& launch) {
  out << "{\"kernel\": \"" << launch.kernel << "\", \"grid\": ";
  write_list(out, launch.grid);
  out << ", \"threadgroup\": ";
  write_list(out, launch.threadgroup);
  out << ", \"constants\": ";
  write_list(out, launch.constants);
  out << ", \"first_row\": " << launch.params.first_row;
}

void write(std::ostream& out, const Record& record) {
  write(out, record.launch);
  out << ", \"error\": \"" << record.error << "\", \"buffers\": [";
  const char* separator = "";
  for (auto& t : record.traffic) {
    out << separator << "{\"loads\": " << t.loads
        << ", \"stores\": " << t.stores << ", \"bytes\": " << t.bytes << "}";
    separator = ", ";
  }
  out << "]}";
}

template <typename Items>
const char* json(const Items& items) {
  static std::string text;
  std::ostringstream out;
  const char* separator = "[";
  for (auto& item : items) {
    out << separator;
    write(out, item);
    separator = ",\n";
  }
  text = (items.empty() ? "[" : out.str()) + "]";
  return text.c_str();
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

// The launches since the last call, as JSON.
EXPORTED const char* take_records() {
  auto text = metal::json(metal::settings().records);
  metal::settings().records.clear();
  return text;
}
