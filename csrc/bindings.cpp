#include <nanobind/nanobind.h>
#include <nanobind/stl/detail/nb_list.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include <new>
#include <utility>

#include "cpu/cache.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "ops.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;
using mlx_pooling::Window;

namespace nanobind::detail {

template <typename T, size_t kSize>
struct type_caster<mx::SmallVector<T, kSize>>
    : list_caster<mx::SmallVector<T, kSize>, T> {};

} // namespace nanobind::detail

namespace {

using Fields = std::tuple<
    std::string,
    Window::Sizes,
    Window::Sizes,
    Window::Sizes,
    Window::Sizes,
    Window::Sizes,
    bool,
    bool,
    std::optional<int64_t>,
    bool,
    bool,
    Window::Kind,
    Window::OutputSizes>;

Fields fields(const Window& w) {
  return {
      w.name,
      w.kernel_size,
      w.stride,
      w.pad_lo,
      w.pad_hi,
      w.dilation,
      w.ceil_mode,
      w.count_include_pad,
      w.divisor_override,
      w.same_padding,
      w.minimum,
      w.kind,
      w.output_size};
}

Window restored(const Fields& state) {
  auto window = [&]<size_t... I>(std::index_sequence<I...>) {
    return Window(std::get<I>(state)...);
  }(std::make_index_sequence<11>());
  auto& output_size = std::get<Window::OutputSizes>(state);
  switch (std::get<Window::Kind>(state)) {
    case Window::Kind::adaptive:
      return Window::adaptive(window.name, output_size);
    case Window::Kind::unpool:
      return Window::unpool(
          window.name, window.kernel_size, window.stride, window.pad_lo,
          window.pad_hi, output_size);
    default:
      return window;
  }
}

const mx::array&
checked_array(nb::handle x, const char* argument, const Window& window) {
  if (!nb::isinstance<mx::array>(x)) {
    auto message = "[" + window.name + "] '" + argument +
        "' must be an mlx.core.array but got " +
        nb::type_name(x.type()).c_str() + ".";
    throw nb::type_error(message.c_str());
  }
  return nb::cast<const mx::array&>(x);
}

mx::StreamOrDevice checked_stream(nb::handle stream, const Window& window) {
  mx::StreamOrDevice checked;
  // Without conversions: some take any number for a kind of device.
  if (!stream.is_none() && !nb::try_cast(stream, checked, false)) {
    auto message = "[" + window.name +
        "] 'stream' must be a Stream, Device or None but got " +
        nb::repr(stream).c_str() + ".";
    throw nb::type_error(message.c_str());
  }
  return checked;
}

// What Python calls an operation of one array with.
template <auto kOperation>
auto of_array() {
  return [](nb::handle x, const Window& window, nb::handle stream) {
    return kOperation(
        checked_array(x, "x", window), window, checked_stream(stream, window));
  };
}

} // namespace

// Of signatures: what MLX's own functions take.
#define STREAM                                              \
  "stream: mlx.core.Stream | mlx.core.ThreadLocalStream | " \
  "mlx.core.Device | mlx.core.DeviceType | None = None"

NB_MODULE(_ext, m) {
  m.doc() = "The C++ side of mlx_pooling: window geometry and operations.";
  nb::module_::import_("mlx.core");

  nb::enum_<Window::Kind>(m, "Kind")
      .value("sliding", Window::Kind::sliding)
      .value("adaptive", Window::Kind::adaptive)
      .value("unpool", Window::Kind::unpool);

  nb::class_<Window>(
      m, "Window",
      "The static arguments of a pooling operation, checked on construction.\n"
      "\n"
      "Raises:\n"
      "    ValueError: Where a size is out of range; worded\n"
      "        ``[name] 'argument' must be ...``.\n")
      .def(
          nb::init<
              std::string, Window::Sizes, Window::Sizes, Window::Sizes,
              Window::Sizes, Window::Sizes, bool, bool, std::optional<int64_t>,
              bool, bool>(),
          "name"_a, "kernel_size"_a, "stride"_a, "pad_lo"_a, "pad_hi"_a,
          "dilation"_a, "ceil_mode"_a = false, "count_include_pad"_a = true,
          "divisor_override"_a = nb::none(), "same_padding"_a = false,
          "minimum"_a = false)
      .def_ro("name", &Window::name)
      .def_ro("kernel_size", &Window::kernel_size)
      .def_ro("stride", &Window::stride)
      .def_ro("pad_lo", &Window::pad_lo)
      .def_ro("pad_hi", &Window::pad_hi)
      .def_ro("dilation", &Window::dilation)
      .def_ro("ceil_mode", &Window::ceil_mode)
      .def_ro("count_include_pad", &Window::count_include_pad)
      .def_ro("divisor_override", &Window::divisor_override)
      .def_ro("same_padding", &Window::same_padding)
      .def_ro("minimum", &Window::minimum)
      .def_ro("output_size", &Window::output_size)
      .def_static(
          "adaptive", &Window::adaptive, "name"_a, "output_size"_a,
          "Of an operation with an output size, for any input size.")
      .def_static(
          "unpool", &Window::unpool, "name"_a, "kernel_size"_a, "stride"_a,
          "pad_lo"_a, "pad_hi"_a, "output_size"_a,
          "Of the operation that undoes a max pooling.")
      .def("__getstate__", &fields)
      .def("__setstate__", [](Window& window, const Fields& state) {
        new (&window) Window(restored(state));
      });

  m.def(
      "max_pool", of_array<mlx_pooling::max_pool>(), "x"_a.none(), "window"_a,
      "stream"_a = nb::none(),
      nb::sig(
          "def max_pool(x: mlx.core.array, window: Window, " STREAM
          ") -> mlx.core.array"),
      "Maxima of windows of x, (N, *spatial, C) or (*spatial, C).");
  m.def(
      "max_pool_with_indices", of_array<mlx_pooling::max_pool_with_indices>(),
      "x"_a.none(), "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def max_pool_with_indices(x: mlx.core.array, window: Window, " STREAM
          ") -> tuple[mlx.core.array, mlx.core.array]"),
      "Maxima and their flat spatial indices, uint32.");
  m.def(
      "max_unpool",
      [](nb::handle x, nb::handle indices, const Window& window,
         nb::handle stream) {
        return mlx_pooling::max_unpool(
            checked_array(x, "x", window),
            checked_array(indices, "indices", window), window,
            checked_stream(stream, window));
      },
      "x"_a.none(), "indices"_a.none(), "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def max_unpool(x: mlx.core.array, indices: mlx.core.array, window: "
          "Window, " STREAM ") -> mlx.core.array"),
      "x at flat spatial indices of a plane that is zero elsewhere.");
  m.def(
      "avg_pool", of_array<mlx_pooling::avg_pool>(), "x"_a.none(), "window"_a,
      "stream"_a = nb::none(),
      nb::sig(
          "def avg_pool(x: mlx.core.array, window: Window, " STREAM
          ") -> mlx.core.array"),
      "Averages of windows of x, (N, *spatial, C) or (*spatial, C).");
  m.def(
      "sum_pool", of_array<mlx_pooling::sum_pool>(), "x"_a.none(), "window"_a,
      "stream"_a = nb::none(),
      nb::sig(
          "def sum_pool(x: mlx.core.array, window: Window, " STREAM
          ") -> mlx.core.array"),
      "Exact sums of windows of x, int32 or int64, in its dtype.");
  m.def(
      "quantized_avg_pool",
      [](nb::handle x, int32_t zero_point, const Window& window,
         nb::handle stream) {
        return mlx_pooling::quantized_avg_pool(
            checked_array(x, "x", window), zero_point, window,
            checked_stream(stream, window));
      },
      "x"_a.none(), "zero_point"_a, "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def quantized_avg_pool(x: mlx.core.array, zero_point: int, window: "
          "Window, " STREAM ") -> mlx.core.array | None"),
      "Averages of windows of quantized x, int8 or uint8, of its zero point.\n"
      "None where there is no kernel for them.");
  m.def(
      "lp_pool",
      [](nb::handle x, double exponent, const Window& window,
         nb::handle stream) {
        return mlx_pooling::lp_pool(
            checked_array(x, "x", window), exponent, window,
            checked_stream(stream, window));
      },
      "x"_a.none(), "exponent"_a, "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def lp_pool(x: mlx.core.array, exponent: float, window: "
          "Window, " STREAM ") -> mlx.core.array | None"),
      "Roots of sums of powers in sliding windows of x, float32 or float64;\n"
      "sums of overhanging windows are scaled up to whole ones.\n"
      "None where there is no kernel for them.");
  m.def(
      "begin_composed", &mlx_pooling::begin_composed,
      "Build operations of this thread from MLX's own primitives.");
  m.def(
      "end_composed", &mlx_pooling::end_composed,
      "Stop that, where it was begun once.");
  m.def(
      "cpu_settings",
      [] {
        nb::dict settings;
        settings["ISA"] = mlx_pooling::cpu::kernels().isa;
        settings["NUM_THREADS"] = mlx_pooling::cpu::max_threads();
        settings["CACHE_BYTES"] = mlx_pooling::cpu::most_cached_bytes();
        return settings;
      },
      nb::sig("def cpu_settings() -> dict[str, str | int]"),
      "What the CPU kernels take the variables MLX_POOLING_... for.");
}
