#pragma once

#include <metal_stdlib>
#include "params.h"

using namespace metal;
using namespace mlx_pooling;

// Known when the pipeline is made, so that loops unroll and checks vanish.
// The host numbers them in csrc/metal/launch.h.
constant int kernel_d [[function_constant(0)]];
constant int kernel_h [[function_constant(1)]];
constant int kernel_w [[function_constant(2)]];
constant int stride_d [[function_constant(3)]];
constant int stride_h [[function_constant(4)]];
constant int stride_w [[function_constant(5)]];
constant int dilation_d [[function_constant(6)]];
constant int dilation_h [[function_constant(7)]];
constant int dilation_w [[function_constant(8)]];
// Some window leaves the input along D or H.
constant bool clip_rows [[function_constant(9)]];
// Some tile of windows leaves the input along W.
constant bool clip_columns [[function_constant(10)]];
constant bool with_offsets [[function_constant(11)]];
constant bool with_values [[function_constant(12)]];
constant bool uniform_divisor [[function_constant(13)]];
constant bool count_include_pad [[function_constant(14)]];
constant bool minimum [[function_constant(15)]];
// Windows along an axis share it out among them (Axis::adaptive).
constant bool adaptive_d [[function_constant(16)]];
constant bool adaptive_h [[function_constant(17)]];
constant bool adaptive_w [[function_constant(18)]];
// A pass of several takes taps from the one before, or leaves some to the next.
constant bool with_taps [[function_constant(19)]];
// Slices of windows are put together.
constant bool from_slices [[function_constant(20)]];

#ifndef MLX_POOLING_INSTANTIATE
#define MLX_POOLING_INSTANTIATE(name, ...) \
  template [[host_name(name)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;
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

template <int V, typename T, typename A>
void add_column(thread A* total, const device T* from) {
  const Pack<T, V> v = load<V>(from);
  for (int i = 0; i < V; ++i) {
    total[i] += A(v.v[i]);
  }
}

// Sums, rounded once.
template <typename T, int V, typename A>
Pack<T, V> rounded(const thread A* sums) {
  Pack<T, V> pack;
  for (int i = 0; i < V; ++i) {
    pack.v[i] = T(sums[i]);
  }
  return pack;
}

template <typename T>
bool is_nan(T v) {
  return v != v;
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

// The thread's place: a tile of TH x TW neighbours along H and W, V channels.
template <typename Index>
struct Place {
  Index channel;
  Index first; // position along W
  Index row;   // among batch * depth * height
  Index n;
  Index d;
  Index h;
};

template <typename Index, int V, int TH, int TW>
Place<Index>
place(uint3 thread_at, int64_t first_row, int64_t depth, int64_t height) {
  Place<Index> at;
  at.channel = Index(thread_at.x) * V;
  at.first = Index(thread_at.y) * TW;
  const Index tile_row = Index(thread_at.z) + Index(first_row);
  const Index tiles = (Index(height) + (TH - 1)) / TH;
  const Index plane = tile_row / tiles;
  at.h = (tile_row - plane * tiles) * TH;
  at.row = plane * Index(height) + at.h;
  at.n = plane / Index(depth);
  at.d = plane - at.n * Index(depth);
  return at;
}

// First channel of the thread's position (u, t), in an array of that width.
template <typename Index>
Index own_element(
    Place<Index> at, int u, int t, int64_t width, int64_t channels) {
  const Index position = (at.row + u) * Index(width) + at.first + t;
  return position * Index(channels) + at.channel;
}

// Input position of tap 0 of window o; negative inside the low padding.
template <typename Index>
Index window_start(
    Index o, Index in, Index out, Index stride, Index pad_lo, bool adaptive) {
  return adaptive ? o * in / out : o * stride - pad_lo;
}

// The taps of adaptive window o, which starts at `start`.
template <typename Index>
Index adaptive_taps(Index o, Index start, Index in, Index out) {
  return ((o + 1) * in - 1) / out + 1 - start;
}

// The taps, of a window that starts at `start`, inside an axis of size `in`.
template <typename Index>
Range<Index> valid_taps(Index start, Index in, Index taps, Index dilation) {
  const Index first = start < 0 ? (-start - 1) / dilation + 1 : Index(0);
  const Index last = start < in ? (in - start - 1) / dilation + 1 : Index(0);
  return {first, min(last, taps)};
}

// The taps, inside the input, of window o.
template <typename Index>
Range<Index> window_taps(
    Index o,
    Index start,
    Index in,
    Index out,
    Index taps,
    Index dilation,
    bool clip,
    bool adaptive) {
  if (adaptive) {
    return {0, adaptive_taps<Index>(o, start, in, out)};
  }
  if (clip) {
    return valid_taps<Index>(start, in, taps, dilation);
  }
  return {0, taps};
}
