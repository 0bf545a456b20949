#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cpu/links.h"
#include "cpu/side_by_side.h"
#include "cpu/tiling.h"
#include "cpu/winners.h"
#include "geometry.h"
#include "mlx/dtype.h"

namespace mlx_pooling::cpu {

// What averages are divided by; `of_whole_windows`: what scales their sums up
// to those of whole windows.
struct Divisors {
  Divisors(const Geometry& geometry, bool of_whole_windows);

  bool is_uniform; // the same for every output
  double of_all;   // if so
  // If not: a factor for each axis and output.
  std::array<Periodic<double>, kMaxSpatialAxes> factors;
};

// One operation over row-contiguous data. `links` are of the positions, of
// `channels` elements each, that a kernel goes through: those of `to`, computed
// from what they are linked to in `from`, or, where gradients are spread, those
// of `from`, each of which writes what it is linked to.
struct Task {
  int64_t from_bytes() const {
    return static_cast<const char*>(from_end) - static_cast<const char*>(from);
  }

  Links links;
  int64_t channels;
  mlx::core::Dtype::Val dtype;
  const void* from;
  const void* from_end; // no vector is read from beyond
  void* to;
  bool around_caches; // whether to store around them what goes there
  std::optional<Tiling> tiling = {}; // of kernels that work by units
  SideBySide side_by_side = {};      // of kernels named so
};

struct MaxTask : Task {
  bool minimum;
  mlx::core::Dtype::Val offsets_dtype;
  void* offsets; // maxima write them, unless null; what follows reads them
  std::optional<Winners> winners = {}; // of max_scatter_winners
};

struct AvgTask : Task {
  Divisors divisors;
  bool adjoint; // divide what comes from a window, not what goes to it
  int32_t zero_point = 0;    // of elements of 8 bits, which are quantized
  int exponent = 1;          // other than 1, of float32 or float64: of a norm
  bool gives_floats = false; // float32, of elements of 8 bits that are not
};

// Numbers that become floats, elements [begin, end) of which a kernel sees to.
struct Integers {
  mlx::core::Dtype::Val dtype; // or bools
  const void* from;
  float* to;
};

// A kernel goes through positions [begin, end), or units [begin, end) of the
// tiling where there is one, on the calling thread.
template <typename T>
using Kernel = void(const T& task, int64_t begin, int64_t end);

// Calls DO(task, name) for each.
#define MLX_POOLING_EACH_KERNEL(DO)            \
  DO(MaxTask, max_walk)                        \
  DO(MaxTask, max_scatter_walk)                \
  DO(MaxTask, max_scatter_axis_by_axis)        \
  DO(MaxTask, max_scatter_winners)             \
  DO(MaxTask, max_gather)                      \
  DO(MaxTask, max_indices)                     \
  DO(MaxTask, max_scatter_place)               \
  DO(MaxTask, max_scatter_spread)              \
  DO(MaxTask, max_scatter_spread_side_by_side) \
  DO(MaxTask, max_side_by_side)                \
  DO(MaxTask, max_along_rows)                  \
  DO(MaxTask, max_column_by_column)            \
  DO(MaxTask, max_quads_by_column)             \
  DO(MaxTask, max_sweep)                       \
  DO(MaxTask, max_row_by_row)                  \
  DO(AvgTask, avg_walk)                        \
  DO(AvgTask, avg_grad_walk)                   \
  DO(AvgTask, avg_grad_fill)                   \
  DO(AvgTask, avg_grad_spread)                 \
  DO(AvgTask, avg_grad_spread_side_by_side)    \
  DO(AvgTask, avg_side_by_side)                \
  DO(AvgTask, avg_along_rows)                  \
  DO(AvgTask, avg_row_by_row)                  \
  DO(AvgTask, avg_column_by_column)            \
  DO(AvgTask, avg_sweep)                       \
  DO(Integers, to_floats)

#define MLX_POOLING_POINTER(TASK, NAME) Kernel<TASK>* NAME;
struct Kernels {
  const char* isa;
  // Of the vectors that those side by side permute; 0 where none can be.
  int (*bytes_side_by_side)();
  MLX_POOLING_EACH_KERNEL(MLX_POOLING_POINTER)
};
#undef MLX_POOLING_POINTER

// Those for the best instruction set of the running CPU.
const Kernels& kernels();

// In those vectors, of elements that are computed in `bytes` each.
int64_t lanes_side_by_side(int64_t bytes);

// Their definitions, one namespace an instruction set (see isa.h).
#define MLX_POOLING_DECLARE_KERNEL(TASK, NAME) Kernel<TASK> NAME;
#define MLX_POOLING_ENTRY(TASK, NAME) .NAME = NAME,
#define MLX_POOLING_DECLARE_KERNELS(level)            \
  namespace level {                                   \
  int bytes_side_by_side();                           \
  MLX_POOLING_EACH_KERNEL(MLX_POOLING_DECLARE_KERNEL) \
  inline constexpr Kernels kernels{                   \
      .isa = #level,                                  \
      .bytes_side_by_side = bytes_side_by_side,       \
      MLX_POOLING_EACH_KERNEL(MLX_POOLING_ENTRY)};    \
  }

MLX_POOLING_DECLARE_KERNELS(baseline)
#if defined(MLX_POOLING_X86_64_LEVELS)
MLX_POOLING_DECLARE_KERNELS(avx2)
MLX_POOLING_DECLARE_KERNELS(avx512)
#endif

#undef MLX_POOLING_DECLARE_KERNELS
#undef MLX_POOLING_ENTRY
#undef MLX_POOLING_DECLARE_KERNEL
#undef MLX_POOLING_EACH_KERNEL

} // namespace mlx_pooling::cpu
