#include "metal/plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace mlx_pooling::metal {

namespace mx = mlx::core;

namespace {

constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max();
constexpr uint32_t kThreadsPerGroup = 256;
// Fewer threads than this leave a GPU idle: prefer more of them to tiles.
#if !defined(MLX_POOLING_BUSY_THREADS)
#define MLX_POOLING_BUSY_THREADS 8192
#endif
constexpr int64_t kBusyThreads = MLX_POOLING_BUSY_THREADS;
constexpr int kTile = 4;

// Names the element type in the shaders. complex64 is read as the float pairs
// that the geometry counts as channels.
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

// Any type of that size, for elements that are only moved.
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

int64_t element_bytes(mx::Dtype dtype) {
  return dtype == mx::complex64 ? sizeof(float) : mx::size_of(dtype);
}

// 32-bit index arithmetic is exact where every element and every padded
// position has a 32-bit number, with room for one tile beyond the last, and
// where what an adaptive window starts at is divided from does.
const char* index_type(const Geometry& g) {
  bool fits = std::max(g.inputs(), g.outputs()) * g.channels <= kMax32;
  for (auto& axis : g.axes) {
    auto padded = axis.in + axis.pad_lo + axis.pad_hi;
    fits = fits && padded + kTile * axis.stride <= kMax32 &&
        (!axis.adaptive || (axis.in + kTile) * (axis.out + 1) <= kMax32);
  }
  return fits ? "int" : "long";
}

// The most channels, a power of two, that one 16-byte access can move of every
// operand.
int vector_width(const Geometry& g, const std::vector<Operand>& operands) {
  int64_t width = 16;
  for (auto& operand : operands) {
    width = std::min(width, 16 / element_bytes(operand.dtype));
  }
  auto divides = [&](int64_t v) {
    return g.channels % v == 0 &&
        std::all_of(operands.begin(), operands.end(), [&](auto& operand) {
             return operand.byte_offset % (v * element_bytes(operand.dtype)) ==
                 0;
           });
  };
  while (!divides(width)) {
    width /= 2;
  }
  return static_cast<int>(width);
}

Constants constants(const Geometry& g) {
  Constants values{};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto& axis = g.axes[i];
    values[static_cast<int>(Constant::kernel_d) + i] = axis.kernel;
    values[static_cast<int>(Constant::stride_d) + i] = axis.stride;
    values[static_cast<int>(Constant::dilation_d) + i] = axis.dilation;
    values[static_cast<int>(Constant::adaptive_d) + i] = axis.adaptive;
  }
  return values;
}

void set(Launch& launch, Constant constant, bool value) {
  launch.constants[static_cast<int>(constant)] = value;
}

PoolParams params(const Geometry& g) {
  PoolParams p{};
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    p.in[i] = g.axes[i].in;
    p.out[i] = g.axes[i].out;
    p.pad_lo[i] = g.axes[i].pad_lo;
    p.pad_hi[i] = g.axes[i].pad_hi;
  }
  p.channels = g.channels;
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

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Splits rows over launches that each have a 32-bit grid.
std::vector<Launch>
launches(Launch launch, int64_t columns, int64_t tiles, int64_t rows) {
  std::vector<Launch> all;
  for (int64_t row = 0; row < rows; row += kMax32) {
    launch.params.first_row = row;
    launch.grid = {
        static_cast<uint32_t>(columns), static_cast<uint32_t>(tiles),
        static_cast<uint32_t>(std::min(rows - row, kMax32))};
    launch.threadgroup = threadgroup_for(launch.grid);
    all.push_back(launch);
  }
  return all;
}

Launch make_launch(std::string kernel, const Geometry& g) {
  return {std::move(kernel), constants(g), params(g), {}, {}};
}

std::string
instantiation(const char* kernel, const std::vector<std::string>& arguments) {
  std::string text = kernel;
  const char* separator = "<";
  for (auto& argument : arguments) {
    text += separator + argument;
    separator = ", ";
  }
  return text + ">";
}

// Windows are tiled along W where they share columns and enough threads
// remain without neighbours of their own.
int window_tile(const Geometry& g, int width) {
  auto& w = g.axes[2];
  bool shares_columns = !w.adaptive && w.dilation == 1 && w.kernel > w.stride;
  // A tile's columns are unrolled.
  bool is_small = w.kernel <= 8;
  auto threads = g.outputs() * g.channels / width;
  return shares_columns && is_small && w.out >= kTile &&
          threads / kTile >= kBusyThreads
      ? kTile
      : 1;
}

int cover_tile(const Geometry& g, int width) {
  auto threads = g.inputs() * g.channels / width;
  return g.axes[2].in >= kTile && threads / kTile >= kBusyThreads ? kTile : 1;
}

// A launch over outputs, each looking at the inputs in its window.
std::vector<Launch>
over_windows(Launch launch, const Geometry& g, int width, int tile) {
  auto& [d, h, w] = g.axes;
  auto tiles = ceil_div(w.out, tile);
  auto last_column = w.start(tiles * tile - 1) + (w.kernel - 1) * w.dilation;
  set(launch, Constant::clip_rows, d.leaves_input() || h.leaves_input());
  set(launch, Constant::clip_columns, w.pad_lo > 0 || last_column >= w.in);
  return launches(
      std::move(launch), g.channels / width, tiles, g.outputs() / w.out);
}

// A launch over inputs, each looking at the windows around it.
std::vector<Launch>
over_covers(Launch launch, const Geometry& g, int width, int tile) {
  auto& w = g.axes[2];
  return launches(
      std::move(launch), g.channels / width, ceil_div(w.in, tile),
      g.inputs() / w.in);
}

// Whether all windows have the same divisor, which `params` then carries.
void set_divisor(Launch& launch, const Geometry& g) {
  double divisor = 1;
  bool uniform = true;
  for (int i = 0; i < kMaxSpatialAxes; ++i) {
    auto& axis = g.axes[i];
    divisor *= g.divisor(i, 0);
    // Windows count fewer taps only where they leave the input, which those at
    // both ends do first.
    uniform = uniform &&
        (g.divisor_override != 0 ||
         (g.divisor(i, 0) == axis.kernel &&
          g.divisor(i, axis.out - 1) == axis.kernel));
  }
  launch.params.divisor = static_cast<float>(divisor);
  set(launch, Constant::uniform_divisor, uniform);
  set(launch, Constant::count_include_pad, g.count_include_pad);
}

} // namespace

std::vector<Launch>
plan_max_pool(const Geometry& g, Operand x, Operand y, const Operand* offsets) {
  std::vector<Operand> operands{x, y};
  if (offsets != nullptr) {
    operands.push_back(*offsets);
  }
  auto width = vector_width(g, operands);
  auto tile = window_tile(g, width);
  auto kernel = instantiation(
      "max_pool",
      {type_name(x.dtype), offsets ? type_name(offsets->dtype) : "uchar",
       index_type(g), std::to_string(width), std::to_string(tile)});
  auto launch = make_launch(kernel, g);
  set(launch, Constant::with_offsets, offsets != nullptr);
  set(launch, Constant::minimum, g.minimum);
  return over_windows(std::move(launch), g, width, tile);
}

std::vector<Launch> plan_max_pool_scatter(
    const Geometry& g, Operand offsets, Operand dy, Operand dx) {
  auto width = vector_width(g, {offsets, dy, dx});
  auto tile = cover_tile(g, width);
  auto kernel = instantiation(
      "max_pool_scatter",
      {type_name(dy.dtype), type_name(offsets.dtype), index_type(g),
       std::to_string(width), std::to_string(tile)});
  return over_covers(make_launch(kernel, g), g, width, tile);
}

std::vector<Launch> plan_max_pool_gather(
    const Geometry& g, Operand offsets, Operand y, bool with_values) {
  auto kernel = instantiation(
      "max_pool_gather",
      {word_name(y.dtype), type_name(offsets.dtype), index_type(g)});
  auto launch = make_launch(kernel, g);
  set(launch, Constant::with_values, with_values);
  return over_windows(std::move(launch), g, 1, 1);
}

UnpoolLaunches plan_unpool_routes(const Geometry& g) {
  auto launch = [&](const char* kernel) {
    return make_launch(instantiation(kernel, {index_type(g)}), g);
  };
  return {
      over_covers(launch("unpool_clear"), g, 1, 1),
      over_windows(launch("unpool_claim"), g, 1, 1),
      over_windows(launch("unpool_settle"), g, 1, 1)};
}

std::vector<Launch> plan_avg_pool(const Geometry& g, Operand x, Operand y) {
  auto width = vector_width(g, {x, y});
  auto tile = window_tile(g, width);
  auto kernel = instantiation(
      "avg_pool",
      {type_name(x.dtype), index_type(g), std::to_string(width),
       std::to_string(tile)});
  auto launch = make_launch(kernel, g);
  set_divisor(launch, g);
  return over_windows(std::move(launch), g, width, tile);
}

std::vector<Launch>
plan_avg_pool_grad(const Geometry& g, Operand dy, Operand dx) {
  auto width = vector_width(g, {dy, dx});
  auto tile = cover_tile(g, width);
  auto kernel = instantiation(
      "avg_pool_grad",
      {type_name(dy.dtype), index_type(g), std::to_string(width),
       std::to_string(tile)});
  auto launch = make_launch(kernel, g);
  set_divisor(launch, g);
  return over_covers(std::move(launch), g, width, tile);
}

} // namespace mlx_pooling::metal
