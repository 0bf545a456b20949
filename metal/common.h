#pragma once

#include <metal_stdlib>
#include "params.h"

using namespace metal;
using namespace mlx_pooling;

// Known when the pipeline is made, so that loops unroll and checks vanish.
// The host numbers them in csrc/metal/launch.h. Large kernels, which grow with
// the input where one window is all of it, are 0, as are their strides: not
// every size of an input is to have a pipeline of its own.
constant int kernel_d [[function_constant(0)]];
constant int kernel_h [[function_constant(1)]];
constant int kernel_w [[function_constant(2)]];
constant int stride_d [[function_constant(3)]];
constant int stride_h [[function_constant(4)]];
constant int stride_w [[function_constant(5)]];
constant int dilation_d [[function_constant(6)]];
constant int dilation_h [[function_constant(7)]];
constant int dilation_w [[function_constant(8)]];
// Of norms, 2 or 3: what elements are raised to, and the root of sums.
constant int power [[function_constant(9)]];
constant int root [[function_constant(10)]];
// Taps, along W, of the first window around a tile of inputs, up to the tile's
// first input; 0 where tiles differ in them or have many windows along W.
constant int taps_to_tile [[function_constant(11)]];
// Some window leaves the input along D or H.
constant bool clip_rows [[function_constant(12)]];
// Some tile of windows leaves the input along W.
constant bool clip_columns [[function_constant(13)]];
constant bool with_offsets [[function_constant(14)]];
constant bool with_values [[function_constant(15)]];
constant bool uniform_divisor [[function_constant(16)]];
constant bool count_include_pad [[function_constant(17)]];
constant bool minimum [[function_constant(18)]];
// Windows along an axis share it out among them (Axis::adaptive).
constant bool adaptive_d [[function_constant(19)]];
constant bool adaptive_h [[function_constant(20)]];
constant bool adaptive_w [[function_constant(21)]];
// A pass of several takes taps from the one before, or leaves some to the next.
constant bool with_taps [[function_constant(22)]];
// A tile of windows has few columns, and is one or has only windows with one of
// the input.
constant bool known_columns [[function_constant(23)]];
// Slices of windows are put together.
constant bool from_slices [[function_constant(24)]];

#ifndef MLX_POOLING_INSTANTIATE
#define MLX_POOLING_INSTANTIATE(name, ...) \
  template [[host_name(name)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;
#endif

// At the start of a function that rounds a product before it is added to.
#ifndef MLX_POOLING_UNFUSED
#define MLX_POOLING_UNFUSED _Pragma("clang fp contract(off)")
#endif

// Before loops over arrays that are to be registers.
#ifndef MLX_POOLING_UNROLL
#define MLX_POOLING_UNROLL _Pragma("clang loop unroll(full)")
#endif

// Consecutive channels, moved by one load or store.
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T v[V];
};

template <int V, typename T>
Pack<T, V> load(const device T* from) {
  return *reinterpret_cast<const device Pack<T, V>*>(from);
}

template <int V, typename T>
void store(device T* to, Pack<T, V> pack) {
  *reinterpret_cast<device Pack<T, V>*>(to) = pack;
}

// What sums are accumulated in.
template <typename T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<half> {
  using type = float;
};
template <>
struct Accumulator<bfloat> {
  using type = float;
};

// Sums, rounded once.
template <typename T, int V, typename A>
Pack<T, V> rounded(const thread A* sums) {
  Pack<T, V> pack;
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    pack.v[i] = T(sums[i]);
  }
  return pack;
}

template <typename T>
bool is_nan(T v) {
  return v != v;
}

// Whether the number of a tap, or an offset, is the largest: there is no tap.
template <typename Number>
bool is_none(Number tap) {
  return tap == Number(~Number(0));
}

// A range of taps, windows or columns: [first, last).
template <typename Index>
struct Range {
  Index first;
  Index last;
};

template <typename Index>
bool has_none(Range<Index> range) {
  return range.first >= range.last;
}

template <typename Index>
bool contains(Range<Index> range, Index i) {
  return i >= range.first && i < range.last;
}

// Of a range that has some.
template <typename Index>
Index nearest_in(Range<Index> range, Index i) {
  return min(max(i, range.first), range.last - 1);
}

// One axis of the geometry.
template <typename Index>
struct Axis {
  Index in;
  Index out;
  Index pad_lo;
  Index pad_hi;
  Index taps;
  Index stride; // of an adaptive axis: in / out
  Index dilation;
  bool adaptive;
};

template <typename Index>
Axis<Index> axis_of(
    constant PoolParams& p,
    int number,
    int taps,
    int stride,
    int dilation,
    bool adaptive) {
  return {
      Index(p.in[number]),
      Index(p.out[number]),
      Index(p.pad_lo[number]),
      Index(p.pad_hi[number]),
      Index(taps != 0 ? taps : p.taps[number]),
      Index(taps != 0 ? stride : p.stride[number]),
      Index(dilation),
      adaptive};
}

template <typename Index>
Axis<Index> axis_d(constant PoolParams& p) {
  return axis_of<Index>(p, 0, kernel_d, stride_d, dilation_d, adaptive_d);
}

template <typename Index>
Axis<Index> axis_h(constant PoolParams& p) {
  return axis_of<Index>(p, 1, kernel_h, stride_h, dilation_h, adaptive_h);
}

template <typename Index>
Axis<Index> axis_w(constant PoolParams& p) {
  return axis_of<Index>(p, 2, kernel_w, stride_w, dilation_w, adaptive_w);
}

// The thread's place: a tile of TH x TW neighbours along H and W, V channels.
template <typename Index>
struct Place {
  int64_t n;
  Index d;
  Index h;
  Index first; // position along W
  Index channel;
};

template <typename Index, int V, int TH, int TW>
Place<Index> place(uint3 thread_at, constant PoolParams& p) {
  const uint depth = uint(p.results.size[0]);
  // A launch has fewer than 2^31 rows of tiles, and so has a plane.
  const uint tiles = (uint(p.results.size[1]) + (TH - 1)) / TH;
  const uint plane_of_launch = thread_at.z / tiles;
  const uint plane = uint(p.first_plane) + plane_of_launch;
  const uint item = plane / depth;
  Place<Index> at;
  at.n = p.first_item + item;
  at.d = Index(p.results.first[0]) + Index(plane - item * depth);
  at.h = Index(p.results.first[1]) +
      Index(thread_at.z - plane_of_launch * tiles) * TH;
  at.first = Index(p.results.first[2]) + Index(thread_at.y) * TW;
  at.channel = Index(thread_at.x) * V;
  return at;
}

// Whether the thread's neighbour (u, t) is among the results.
template <typename Index>
bool has_row(constant PoolParams& p, Place<Index> at, int u) {
  return at.h + u < Index(p.results.first[1] + p.results.size[1]);
}

template <typename Index>
Index end_column(constant PoolParams& p) {
  return Index(p.results.first[2] + p.results.size[2]);
}

template <typename Index>
bool has_column(constant PoolParams& p, Place<Index> at, int t) {
  return at.first + t < end_column<Index>(p);
}

template <typename Index>
bool has_neighbour(constant PoolParams& p, Place<Index> at, int u, int t) {
  return has_row(p, at, u) && has_column(p, at, t);
}

// Arrays may have any number of elements. A thread finds its first one in each
// with 64 bits; from there on, `Index` has room for what it can reach.

// First channel of a position.
inline int64_t
element(constant Layout& array, int64_t n, int64_t d, int64_t h, int64_t w) {
  return array.first + n * array.item + d * array.step[0] + h * array.step[1] +
      w * array.step[2];
}

// Of the thread's first neighbour.
template <typename Index>
int64_t own_element(constant Layout& array, Place<Index> at) {
  return element(array, at.n, at.d, at.h, at.first) + at.channel;
}

// From there to neighbour (u, t).
template <typename Index>
Index neighbour(constant Layout& array, int u, int t) {
  return u * Index(array.step[1]) + t * Index(array.step[2]);
}

// Input position of tap 0 of window o; negative inside the low padding.
template <typename Index>
Index window_start(Axis<Index> axis, Index o) {
  return axis.adaptive ? o * axis.in / axis.out : o * axis.stride - axis.pad_lo;
}

// The taps of adaptive window o, which starts at `start`.
template <typename Index>
Index adaptive_taps(Axis<Index> axis, Index o, Index start) {
  return ((o + 1) * axis.in - 1) / axis.out + 1 - start;
}

// The taps, of a window that starts at `start`, inside the first `size` inputs.
template <typename Index>
Range<Index> valid_taps(Axis<Index> axis, Index start, Index size) {
  const Index first = start < 0 ? (-start - 1) / axis.dilation + 1 : Index(0);
  const Index last =
      start < size ? (size - start - 1) / axis.dilation + 1 : Index(0);
  return {first, min(last, axis.taps)};
}

// The taps, inside the input, of window o, which starts at `start`.
template <typename Index>
Range<Index> window_taps(Axis<Index> axis, Index o, Index start, bool clip) {
  if (axis.adaptive) {
    return {0, adaptive_taps(axis, o, start)};
  }
  if (clip) {
    return valid_taps(axis, start, axis.in);
  }
  return {0, axis.taps};
}

// The same of `tile` neighbouring windows together.
template <typename Index>
Range<Index>
tile_taps(Axis<Index> axis, int tile, Index o, Index start, bool clip) {
  axis.taps += (tile - 1) * axis.stride;
  return window_taps(axis, o, start, clip);
}
