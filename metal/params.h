#pragma once

// Shared by host and shaders: what a launch carries besides its arrays. Sizes
// that loops should unroll over are function constants instead (common.h).

#ifdef __METAL_VERSION__
#include <metal_stdlib>
#else
#include <cstdint>
#endif

namespace mlx_pooling {

struct PoolParams {
  int64_t in[3];  // D, H, W of x and dx
  int64_t out[3]; // D, H, W of y and dy
  int64_t pad_lo[3];
  int64_t pad_hi[3];
  int64_t channels;
  int64_t first_row;      // of this launch, among batch * D * H
  int64_t column_taps;    // that a pass counts for one column
  int64_t slices;         // that windows are cut into
  int64_t slice_elements; // of all outputs
  float divisor;          // of every window, where they all have the same
};

} // namespace mlx_pooling
