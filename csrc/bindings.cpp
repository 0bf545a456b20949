#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "ops.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;
using mlx_pooling::Window;

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
    std::optional<int64_t>>;

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
      w.divisor_override};
}

const mx::array& checked_array(nb::handle x, const Window& window) {
  if (!nb::isinstance<mx::array>(x)) {
    auto message = "[" + window.name +
        "] 'x' must be an mlx.core.array but got " +
        nb::type_name(x.type()).c_str() + ".";
    throw nb::type_error(message.c_str());
  }
  return nb::cast<const mx::array&>(x);
}

} // namespace

NB_MODULE(_ext, m) {
  m.doc() = "The C++ side of mlx_pooling: window geometry and operations.";
  nb::module_::import_("mlx.core");

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
              Window::Sizes, Window::Sizes, bool, bool,
              std::optional<int64_t>>(),
          "name"_a, "kernel_size"_a, "stride"_a, "pad_lo"_a, "pad_hi"_a,
          "dilation"_a, "ceil_mode"_a = false, "count_include_pad"_a = true,
          "divisor_override"_a = nb::none())
      .def_ro("name", &Window::name)
      .def_ro("kernel_size", &Window::kernel_size)
      .def_ro("stride", &Window::stride)
      .def_ro("pad_lo", &Window::pad_lo)
      .def_ro("pad_hi", &Window::pad_hi)
      .def_ro("dilation", &Window::dilation)
      .def_ro("ceil_mode", &Window::ceil_mode)
      .def_ro("count_include_pad", &Window::count_include_pad)
      .def_ro("divisor_override", &Window::divisor_override)
      .def("__getstate__", &fields)
      .def("__setstate__", [](Window& window, const Fields& state) {
        std::apply(
            [&](auto&... field) { new (&window) Window(field...); }, state);
      });

  m.def(
      "max_pool",
      [](nb::handle x, const Window& window, mx::StreamOrDevice stream) {
        return mlx_pooling::max_pool(checked_array(x, window), window, stream);
      },
      "x"_a.none(), "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def max_pool(x: mlx.core.array, window: Window, stream: "
          "mlx.core.Stream | mlx.core.Device | None = None) -> "
          "mlx.core.array"),
      "Maxima of windows of x, (N, *spatial, C) or (*spatial, C).");
  m.def(
      "max_pool_with_indices",
      [](nb::handle x, const Window& window, mx::StreamOrDevice stream) {
        return mlx_pooling::max_pool_with_indices(
            checked_array(x, window), window, stream);
      },
      "x"_a.none(), "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def max_pool_with_indices(x: mlx.core.array, window: Window, "
          "stream: mlx.core.Stream | mlx.core.Device | None = None) -> "
          "tuple[mlx.core.array, mlx.core.array]"),
      "Maxima and their flat spatial indices, uint32.");
  m.def(
      "avg_pool",
      [](nb::handle x, const Window& window, mx::StreamOrDevice stream) {
        return mlx_pooling::avg_pool(checked_array(x, window), window, stream);
      },
      "x"_a.none(), "window"_a, "stream"_a = nb::none(),
      nb::sig(
          "def avg_pool(x: mlx.core.array, window: Window, stream: "
          "mlx.core.Stream | mlx.core.Device | None = None) -> "
          "mlx.core.array"),
      "Averages of windows of x, (N, *spatial, C) or (*spatial, C).");
  m.def(
      "set_composed", &mlx_pooling::set_composed, "composed"_a,
      "Build operations of this thread from MLX's own primitives, or stop.\n"
      "Returns the former setting.");
}
