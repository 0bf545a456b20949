#pragma once

#include "windows.h"

// Windows with few outputs: L lanes of a simdgroup share the taps of one, for V
// channels. Neighbouring lanes have neighbouring channels, then taps. Where
// the lanes are too few the taps are cut in slices besides, whose results
// another launch puts together.

// Those of a simdgroup, on every GPU of Apple.
constant int kLanes = 32;

// What a lane does.
template <typename Index>
struct Share {
  Place<Index> at;
  Index number; // of L, for the same channels
  Index slice;
  bool is_idle; // beyond the last channel
};

template <typename Index, int V, int L>
Share<Index> lane_share(constant PoolParams& p, uint3 thread_at, uint lane) {
  const uint vectors = uint(kLanes / L);
  const uint slice = thread_at.y / uint(p.out[2]);
  const uint3 place_at = {
      thread_at.x / uint(kLanes) * vectors + lane % vectors,
      thread_at.y - slice * uint(p.out[2]), thread_at.z};
  Share<Index> own;
  own.at = place<Index, V, 1, 1>(place_at, p);
  own.number = Index(lane / vectors);
  own.slice = Index(slice);
  own.is_idle = own.at.channel >= Index(p.y.step[2]);
  return own;
}

// The lane of an output that stores it.
template <typename Index>
bool stores(Share<Index> own) {
  return own.number == 0 && !own.is_idle;
}

// Where the lane's own slice of its output lies: slices are arrays of all
// outputs.
template <typename Index>
int64_t slice_element(constant PoolParams& p, Share<Index> own) {
  return own.slice * p.slice_elements + own_element(p.y, own.at);
}

// From an output's first slice to another.
template <typename Index>
Index other_slice(constant PoolParams& p, Index slice) {
  return slice * Index(p.slice_elements);
}

// A tap of a window, counted from its first inside the input, and how many
// there are; or the distance between two.
template <typename Index>
struct Tap {
  Index d;
  Index row;
  Index column;
};

template <typename Index>
Tap<Index> tap_number(Index number, Tap<Index> count) {
  const Index row = number / count.column;
  return {row / count.row, row % count.row, number - row * count.column};
}

// No division: two digits at most overflow, each once.
template <typename Index>
Tap<Index> advanced(Tap<Index> tap, Tap<Index> step, Tap<Index> count) {
  Tap<Index> next = {
      tap.d + step.d, tap.row + step.row, tap.column + step.column};
  if (next.column >= count.column) {
    next.column -= count.column;
    next.row += 1;
  }
  if (next.row >= count.row) {
    next.row -= count.row;
    next.d += 1;
  }
  return next;
}

// The taps of a lane: every L-th of its slice.
template <typename Index>
struct Walk {
  WindowTile<Index> window;
  Tap<Index> count;
  Tap<Index> step;
  Range<Index> taps; // numbers
};

template <typename Index, int L>
Walk<Index> own_walk(constant PoolParams& p, Share<Index> own) {
  Walk<Index> walk;
  walk.window = window_tile<Index, 1, 1>(p, own.at);
  const WindowTile<Index> window = walk.window;
  const bool is_empty = own.is_idle || has_none(window.taps_d) ||
      has_none(window.rows) || has_none(window.columns);
  walk.count.d = window.taps_d.last - window.taps_d.first;
  walk.count.row = is_empty ? Index(1) : window.rows.last - window.rows.first;
  walk.count.column =
      is_empty ? Index(1) : window.columns.last - window.columns.first;
  walk.step = tap_number<Index>(L, walk.count);
  const Index all =
      is_empty ? Index(0) : walk.count.d * walk.count.row * walk.count.column;
  const Index slices = from_slices ? Index(1) : Index(p.slices);
  const Index length = (all + slices - 1) / slices;
  walk.taps.first = own.slice * length + own.number;
  walk.taps.last = min(all, (own.slice + 1) * length);
  return walk;
}

// From the window's first input to that which a tap is.
template <typename Index>
Index tap_element(
    constant PoolParams& p, WindowTile<Index> window, Tap<Index> tap) {
  return input_at(
      p, window, window.taps_d.first + tap.d, window.rows.first + tap.row,
      window.columns.first + tap.column);
}

// Loads of a lane that are under way at a time.
enum { kLoadsAhead = 4 };

// Whether a lane has so many taps from number `n` on.
template <typename Index, int L>
bool has_taps(Walk<Index> walk, Index n, int count) {
  return walk.taps.last - n > (count - 1) * L;
}

// The number of a tap in its whole window.
template <typename Index>
uint window_number(
    constant PoolParams& p, WindowTile<Index> window, Tap<Index> tap) {
  const uint row =
      uint(window.taps_d.first + tap.d) * uint(axis_h<Index>(p).taps) +
      uint(window.rows.first + tap.row);
  return row * uint(axis_w<Index>(p).taps) +
      uint(window.columns.first + tap.column);
}

// The next N taps of a lane, whose loads are under way at a time.
template <typename T, int V, int N>
struct NextTaps {
  Pack<T, V> v[N];
  uint number[N];
};

template <int V, int N, typename T, typename Index>
NextTaps<T, V, N> next_taps(
    constant PoolParams& p,
    const device T* from,
    Walk<Index> walk,
    thread Tap<Index>& tap) {
  NextTaps<T, V, N> next;
  MLX_POOLING_UNROLL
  for (int a = 0; a < N; ++a) {
    next.v[a] = load<V>(from + tap_element(p, walk.window, tap));
    next.number[a] = window_number(p, walk.window, tap);
    tap = advanced(tap, walk.step, walk.count);
  }
  return next;
}

// Of the lane whose number differs in the bits of `mask`. Not every type can
// be shuffled as it is.
template <typename T>
T shuffled(T v, ushort mask) {
  return T(simd_shuffle_xor(int(v), mask));
}
inline float shuffled(float v, ushort mask) {
  return simd_shuffle_xor(v, mask);
}
inline half shuffled(half v, ushort mask) {
  return half(simd_shuffle_xor(float(v), mask));
}
inline bfloat shuffled(bfloat v, ushort mask) {
  return bfloat(simd_shuffle_xor(float(v), mask));
}
inline ulong shuffled(ulong v, ushort mask) {
  const uint low = simd_shuffle_xor(uint(v), mask);
  const uint high = simd_shuffle_xor(uint(v >> 32), mask);
  return ulong(high) << 32 | ulong(low);
}
inline long shuffled(long v, ushort mask) {
  return long(shuffled(ulong(v), mask));
}
