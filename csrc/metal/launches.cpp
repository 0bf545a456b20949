#include "metal/launches.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();
constexpr uint32_t kThreadsPerGroup = 256;
// No loop over a larger one is unrolled.
constexpr int64_t kLargestConstantKernel = 16;

int64_t stride(const Axis& axis) {
  return axis.adaptive ? axis.in / axis.out : axis.stride;
}

void set_sizes(Constants& values, int i, const Axis& axis) {
  values[static_cast<int>(Constant::kernel_d) + i] = axis.kernel;
  values[static_cast<int>(Constant::stride_d) + i] = stride(axis);
}

Constants constants(const Geometry& g) {
  Constants values{};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto& axis = g.axes[i];
    if (axis.kernel <= kLargestConstantKernel) {
      set_sizes(values, i, axis);
    }
    values[static_cast<int>(Constant::dilation_d) + i] = axis.dilation;
    values[static_cast<int>(Constant::adaptive_d) + i] = axis.adaptive;
  }
  return values;
}

PoolParams params(const Geometry& g) {
  PoolParams p{};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    p.in[i] = g.axes[i].in;
    p.out[i] = g.axes[i].out;
    p.taps[i] = g.axes[i].kernel;
    p.stride[i] = stride(g.axes[i]);
    p.pad_lo[i] = g.axes[i].pad_lo;
    p.pad_hi[i] = g.axes[i].pad_hi;
  }
  auto [x, y] = layouts(g);
  p.x = x;
  p.y = y;
  return p;
}

// Fills a threadgroup along x first: neighbouring threads read neighbouring
// channels.
Size threadgroup_for(Size grid) {
  Size group{1, 1, 1};
  uint32_t room = kThreadsPerGroup;
  for (int i = 0; i < 3; ++i) {
    group[i] = std::min(room, std::bit_ceil(std::min(grid[i], room)));
    room /= group[i];
  }
  return group;
}

} // namespace

int64_t element_bytes(mx::Dtype dtype) {
  return dtype == mx::complex64 ? sizeof(float) : mx::size_of(dtype);
}

const char* type_name(mx::Dtype dtype) {
  switch (dtype) {
    case mx::bool_:
      return "bool";
    case mx::uint8:
      return "uchar";
    case mx::uint16:
      return "ushort";
    case mx::uint32:
      return "uint";
    case mx::uint64:
      return "ulong";
    case mx::int8:
      return "char";
    case mx::int16:
      return "short";
    case mx::int32:
      return "int";
    case mx::int64:
      return "long";
    case mx::float16:
      return "half";
    case mx::bfloat16:
      return "bfloat";
    case mx::float32:
    case mx::complex64:
      return "float";
    default:
      throw std::invalid_argument("[mlx_pooling] No Metal type for a dtype.");
  }
}

const char* word_name(mx::Dtype dtype) {
  switch (mx::size_of(dtype)) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    default:
      return "ulong";
  }
}

Layout
row_major(int64_t depth, int64_t height, int64_t width, int64_t channels) {
  auto row = width * channels;
  auto plane = height * row;
  return {0, depth * plane, {plane, row, channels}};
}

Layouts layouts(const Geometry& g) {
  auto& [d, h, w] = g.axes;
  return {
      row_major(d.in, h.in, w.in, g.channels),
      row_major(d.out, h.out, w.out, g.channels)};
}

int64_t window_extent(const Axis& axis, int tile) {
  auto inputs = axis.span() - 1 + (tile - 1) * axis.stride;
  return std::min(axis.in - 1, inputs);
}

int64_t cover_extent(const Axis& axis, int tile) {
  auto windows = axis.adaptive ? tile * axis.out / axis.in + 1
                               : (axis.span() + tile - 2) / axis.stride;
  return std::min(axis.out - 1, windows);
}

int64_t first_cover_tap(const Axis& axis) {
  auto last = axis.span() - 1;
  auto beyond = (last - axis.pad_lo) % axis.stride;
  return last - (beyond < 0 ? beyond + axis.stride : beyond);
}

const char* index_type(const Geometry& g, int tile, int64_t reach) {
  bool fits = std::max(reach, g.channels) <= kMax32;
  for (auto& axis : g.axes) {
    auto padded = axis.in + axis.pad_lo + axis.pad_hi;
    auto beyond = (tile - 1) * axis.stride + axis.dilation;
    fits = fits && padded + beyond <= kMax32 && axis.span() <= kMax32 &&
        (!axis.adaptive || (axis.in + tile) * (axis.out + 1) <= kMax32);
  }
  return fits ? "int" : "long";
}

mx::Dtype sum_dtype(mx::Dtype dtype) {
  return mx::issubdtype(dtype, mx::inexact) ? mx::float32 : dtype;
}

mx::Dtype average_sum_dtype(mx::Dtype dtype) {
  return mx::size_of(dtype) == 1 ? mx::int32 : sum_dtype(dtype);
}

std::vector<Operand> summed(Operand from, Operand to) {
  std::vector<Operand> operands{from, to};
  if (mx::size_of(from.dtype) == 1 || mx::size_of(to.dtype) == 1) {
    operands.push_back({mx::float16});
  }
  return operands;
}

int full_width(const std::vector<Operand>& operands) {
  int64_t width = 16;
  for (auto& operand : operands) {
    width = std::min(width, 16 / element_bytes(operand.dtype));
  }
  return static_cast<int>(width);
}

int vector_width(int64_t channels, const std::vector<Operand>& operands) {
  auto width = full_width(operands);
  auto divides = [&](int64_t v) {
    return channels % v == 0 &&
        std::all_of(operands.begin(), operands.end(), [&](auto& operand) {
             return operand.byte_offset % (v * element_bytes(operand.dtype)) ==
                 0;
           });
  };
  while (width > 1 && !divides(width)) {
    width /= 2;
  }
  return width;
}

void set_all_sizes(Launch& launch, const Geometry& g) {
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    set_sizes(launch.constants, i, g.axes[i]);
  }
}

void set(Launch& launch, Constant constant, bool value) {
  launch.constants[static_cast<int>(constant)] = value;
}

std::string instantiation(
    const std::string& kernel, const std::vector<std::string>& arguments) {
  std::string text = kernel;
  const char* separator = "<";
  for (auto& argument : arguments) {
    text += separator + argument;
    separator = ", ";
  }
  return text + ">";
}

Launch make_launch(
    std::string kernel, const Geometry& g, std::vector<Buffer> buffers) {
  return {std::move(kernel), constants(g), params(g), {}, {},
          std::move(buffers)};
}

std::vector<Launch>
launches(Launch launch, int64_t items, int64_t vectors, Tile tile) {
  auto [depth, height, width] = launch.params.results.size;
  if (height == 0 || width == 0) {
    return {};
  }
  auto rows = ceil_div(height, tile.h);
  auto planes = items * depth;
  auto most = kMax32 / rows;
  std::vector<Launch> all;
  for (int64_t plane = 0; plane < planes; plane += most) {
    launch.params.first_item = plane / depth;
    launch.params.first_plane = plane % depth;
    launch.grid = {
        static_cast<uint32_t>(vectors),
        static_cast<uint32_t>(ceil_div(width, tile.w)),
        static_cast<uint32_t>(std::min(planes - plane, most) * rows)};
    launch.threadgroup = threadgroup_for(launch.grid);
    all.push_back(launch);
  }
  return all;
}

void append(Plan& plan, const std::vector<Launch>& launches) {
  plan.launches.insert(plan.launches.end(), launches.begin(), launches.end());
}

bool leaves_input(const Axis& axis, int64_t windows) {
  auto whole = axis;
  whole.out = windows;
  return whole.leaves_input();
}

void set_divisor(Launch& launch, const Geometry& g) {
  double divisor = 1;
  bool uniform = true;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto& axis = g.axes[i];
    divisor *= g.divisor(i, 0);
    // Windows count fewer taps only where they leave the input, or where they
    // are adaptive: those at both ends do first.
    uniform = uniform &&
        (g.divisor_override != 0 ||
         (g.divisor(i, 0) == axis.kernel &&
          g.divisor(i, axis.out - 1) == axis.kernel));
  }
  launch.params.divisor = static_cast<float>(divisor);
  set(launch, Constant::uniform_divisor, uniform);
  set(launch, Constant::count_include_pad, g.count_include_pad);
}

void set_no_divisor(Launch& launch) {
  launch.params.divisor = 1;
  set(launch, Constant::uniform_divisor, true);
}

void set_terms(Launch& launch, Averaging averaging) {
  launch.constants[static_cast<int>(Constant::power)] = averaging.exponent;
  launch.params.zero_point = averaging.zero_point;
}

void set_averages(Launch& launch, const Geometry& g, Averaging averaging) {
  launch.constants[static_cast<int>(Constant::root)] = averaging.exponent;
  launch.params.zero_point = averaging.zero_point;
  set_divisor(launch, g);
  if (averaging.exponent > 1) {
    float whole = 1;
    for (auto& axis : g.axes) {
      whole *= static_cast<float>(axis.kernel);
    }
    bool uniform =
        launch.constants[static_cast<int>(Constant::uniform_divisor)];
    launch.params.divisor = uniform ? 1 : whole;
  }
}

} // namespace mlx_pooling::metal
