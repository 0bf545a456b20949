#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mlx/dtype.h"
#include "params.h"

namespace mlx_pooling::metal {

// The function constants of the shaders, by their index (metal/common.h).
enum class Constant : uint8_t {
  kernel_d,
  kernel_h,
  kernel_w,
  stride_d,
  stride_h,
  stride_w,
  dilation_d,
  dilation_h,
  dilation_w,
  power,
  root,
  taps_to_tile,
  clip_rows, // from here on bool, before int
  clip_columns,
  with_offsets,
  with_values,
  uniform_divisor,
  count_include_pad,
  minimum,
  adaptive_d,
  adaptive_h,
  adaptive_w,
  with_taps,
  known_columns,
  from_slices,
};

inline constexpr int kConstants = static_cast<int>(Constant::from_slices) + 1;

inline constexpr bool is_bool(int constant) {
  return constant >= static_cast<int>(Constant::clip_rows);
}

using Constants = std::array<int32_t, kConstants>;
using Size = std::array<uint32_t, 3>;

// The buffer index of PoolParams in every kernel; arrays come before.
inline constexpr int kParamsIndex = 4;

// What the threads of a launch do to an array: `write` every element once, or a
// `part` of them, or `update` elements atomically.
enum class Access { read, write, part, update };

// An array of a plan (plan.h).
struct Buffer {
  int array;
  Access access = Access::read;
};

// Everything an encoder needs to dispatch a kernel, except the arrays.
struct Launch {
  std::string kernel; // an instantiation: max_pool<float, uchar, int, 4, 1>
  Constants constants;
  PoolParams params;
  Size grid; // in threads
  Size threadgroup;
  std::vector<Buffer> buffers; // each at the index of its place

  // The threadgroup, smaller where a GPU runs no more than `most` threads of
  // this kernel side by side.
  Size threadgroup_within(int64_t most) const;

  // The instantiation as an identifier: max_pool_float_uchar_int_4_1.
  std::string name() const;

  // The name with the function constants: what a pipeline may be cached under.
  std::string specialized_name() const;

  // The shader source with this one instantiation.
  std::string source() const;
};

} // namespace mlx_pooling::metal
