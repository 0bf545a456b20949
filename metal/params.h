#pragma once

// Shared by host and shaders: what a launch carries besides its arrays. Sizes
// that loops should unroll over are function constants instead (common.h).

#ifdef __METAL_VERSION__
#include <metal_stdlib>
#else
#include <cstdint>
#endif

namespace mlx_pooling {

// Of a sweep (sweep.h), what a thread keeps in registers at a time.
enum { kKeptElements = 32 };

// The most columns that are unrolled: of windows around a tile (taps_to_tile)
// or of inputs under one (known_columns).
enum { kMostColumns = 9 };

// Where an array's elements are: the first, where it has position (0, 0, 0),
// and how far it is from one to the next.
struct Layout {
  int64_t first;
  int64_t item;    // of the batch
  int64_t step[3]; // along D, H, W
};

// The results of a launch: of each item of the batch, a block of positions.
struct Block {
  int64_t first[3]; // along D, H, W
  int64_t size[3];
};

struct PoolParams {
  int64_t in[3];  // D, H, W of x and dx
  int64_t out[3]; // D, H, W of y and dy
  // Kernels and strides, where they are no function constants.
  int64_t taps[3];
  int64_t stride[3];
  int64_t pad_lo[3];
  int64_t pad_hi[3];
  Layout x; // of what has the input's sizes
  Layout y; // of what has the output's
  Block results;
  int64_t first_item;     // of the batch, of this launch
  int64_t first_plane;    // of that item's results, along D
  int64_t column_taps;    // that a pass counts for one column
  int64_t slices;         // that windows are cut into
  int64_t slice_elements; // of all outputs
  // Of every window, where they all have the same; else, of a norm, the taps of
  // a whole window.
  float divisor;
  int zero_point; // of quantized elements
};
static_assert(
    sizeof(PoolParams) == 320, "host and shaders differ in its layout");

} // namespace mlx_pooling
