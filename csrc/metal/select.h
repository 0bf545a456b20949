#pragma once

#include <optional>

#include "geometry.h"

namespace mlx_pooling::metal {

// How an operation is taken apart into launches (see select.cpp).
enum class Way {
  direct, // one launch: a thread looks at all of a window
  axes,   // one launch for each axis
};

// Lanes of a simdgroup.
inline constexpr int kLanes = 32;

// How the taps of a window are shared out: to lanes of a simdgroup, and before
// that to slices, which take a launch more.
struct Split {
  int lanes;
  int64_t slices;
};

// None where there are threads enough, too few taps, or passes that load less.
// `width` channels are in a vector; `way` is what the windows would take else.
std::optional<Split> window_split(const Geometry& g, int width, Way way);

// That share so many taps.
int lanes_for(int64_t taps);

Way forward_way(const Geometry& g, int width);
Way backward_way(const Geometry& g, int width);

// The outputs, or inputs, that one thread computes: neighbours along H and W.
struct Tile {
  int h;
  int w;
};

inline constexpr int kLongestTile = 4;

// Whether neighbouring windows along an axis overlap so that one tile of them
// saves loads.
bool shares_taps(const Axis& axis);

Tile window_tile(const Geometry& g, int width);
Tile cover_tile(const Geometry& g, int width);

// What one thread of a pass over one axis computes: neighbours along the axis
// and channels in a vector.
struct Strip {
  int length;
  int width;
};

inline constexpr int kLongestStrip = 32;

// Over that many results along the axis, for each of which an array has so many
// elements; `width` is the most channels that a vector can have.
Strip window_strip(
    const Axis& axis, int64_t results, int64_t elements, int width);
Strip cover_strip(
    const Axis& axis, int64_t results, int64_t elements, int width);

// How many of the first pass' results along its axis make a slab, so that the
// arrays between passes, of so many bytes for all results, take no more than
// `most`. `elements` are all results of that pass.
int64_t
slab_length(int64_t results, int64_t bytes, int64_t most, int64_t elements);

} // namespace mlx_pooling::metal
