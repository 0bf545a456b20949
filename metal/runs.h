#pragma once

#include "windows.h"

// Runs: the elements (w, c) of neighbours along W as they lie in memory. Few
// channels do not fill a vector, but those of a run fill several.

// A vector at any multiple of a quarter of its size: a packed_float4 needs no
// more than a float does.
template <typename T, int V>
struct alignas(sizeof(T) * ((V + 3) / 4)) Packed {
  T v[V];
};

// Elements [first, last) of the N from `from` on; others are left as they are.
template <int V, int N, typename T>
void load_run(thread T* run, const device T* from, int first, int last) {
  MLX_POOLING_UNROLL
  for (int i = 0; i < N; i += V) {
    // The last vector may repeat elements of the one before.
    const int at = min(i, N - V);
    if (at >= first && at + V <= last) {
      const Packed<T, V> pack =
          *reinterpret_cast<const device Packed<T, V>*>(from + at);
      MLX_POOLING_UNROLL
      for (int k = 0; k < V; ++k) {
        run[at + k] = pack.v[k];
      }
    } else {
      MLX_POOLING_UNROLL
      for (int k = at; k < at + V; ++k) {
        if (k >= first && k < last) {
          run[k] = from[k];
        }
      }
    }
  }
}

// The elements before `last` of N, which are whole vectors.
template <int V, int N, typename T>
void store_run(device T* to, const thread T* run, int last) {
  MLX_POOLING_UNROLL
  for (int i = 0; i < N; i += V) {
    if (i + V <= last) {
      Packed<T, V> pack;
      MLX_POOLING_UNROLL
      for (int k = 0; k < V; ++k) {
        pack.v[k] = run[i + k];
      }
      *reinterpret_cast<device Packed<T, V>*>(to + i) = pack;
    } else {
      MLX_POOLING_UNROLL
      for (int k = i; k < i + V; ++k) {
        if (k < last) {
          to[k] = run[k];
        }
      }
    }
  }
}

// How many of `count` neighbours there are before `end`.
template <typename Index>
int neighbours(Index first, Index end, int count) {
  return int(min(end - first, Index(count)));
}

// How many of the thread's TW results along W there are.
template <int TW, typename Index>
int own_columns(constant PoolParams& p, Place<Index> at) {
  return neighbours(at.first, end_column<Index>(p), TW);
}

// The windows of neighbouring outputs, whose rows have runs of all columns
// that the windows reach, from the first window's start on.
template <typename Index>
struct RunTile {
  WindowTile<Index> windows; // with that start as its only column
  Range<int> columns;        // inside the input
};

// The columns inside the input of `count` from `start` on.
template <typename Index>
Range<int> columns_inside(constant PoolParams& p, Index start, int count) {
  if (!clip_columns) {
    return {0, count};
  }
  const Index in = Index(p.in[2]);
  return {
      int(min(max(-start, Index(0)), Index(count))),
      int(max(min(in - start, Index(count)), Index(0)))};
}

template <typename Index, int TH>
RunTile<Index> run_tile(constant PoolParams& p, Place<Index> at, int count) {
  const Index start_d = window_start(axis_d<Index>(p), at.d);
  const Index start_h = window_start(axis_h<Index>(p), at.h);
  const Index start_w = window_start(axis_w<Index>(p), at.first);
  RunTile<Index> tile;
  tile.windows = window_rows<Index, TH>(p, at, start_d, start_h);
  tile.windows.columns.first = 0;
  tile.windows.columns.last = 1;
  tile.windows.first =
      first_input(p, at, tile.windows, start_d, start_h, start_w);
  tile.columns = columns_inside(p, start_w, count);
  return tile;
}

// From the first run to that of another row.
template <typename Index>
Index run_at(constant PoolParams& p, RunTile<Index> tile, Index kd, Index row) {
  return input_at(p, tile.windows, kd, row, Index(0));
}
