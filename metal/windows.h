#pragma once

#include "common.h"

// From outputs to the inputs in their windows: forward kernels.

// The windows of TH x TW neighbouring outputs.
template <typename Index>
struct WindowTile {
  Range<Index> taps_d;  // inside the input
  Range<Index> rows;    // the same, in steps of dilation_h
  Range<Index> columns; // the same, in steps of dilation_w
  int64_t first;        // channel of the first of them all
};

// All but its columns, of windows that start at these positions.
template <typename Index, int TH>
WindowTile<Index> window_rows(
    constant PoolParams& p, Place<Index> at, Index start_d, Index start_h) {
  WindowTile<Index> tile = {};
  tile.taps_d = window_taps(axis_d<Index>(p), at.d, start_d, clip_rows);
  // The host tiles only windows that overlap, alike and not dilated.
  tile.rows = tile_taps(axis_h<Index>(p), TH, at.h, start_h, clip_rows);
  return tile;
}

template <typename Index>
int64_t first_input(
    constant PoolParams& p,
    Place<Index> at,
    WindowTile<Index> tile,
    Index start_d,
    Index start_h,
    Index first_column) {
  return at.channel +
      element(
             p.x, at.n, start_d + tile.taps_d.first * dilation_d,
             start_h + tile.rows.first * dilation_h, first_column);
}

template <typename Index, int TH, int TW>
WindowTile<Index> window_tile(constant PoolParams& p, Place<Index> at) {
  const Axis<Index> w = axis_w<Index>(p);
  const Index start_d = window_start(axis_d<Index>(p), at.d);
  const Index start_h = window_start(axis_h<Index>(p), at.h);
  const Index start_w = window_start(w, at.first);
  WindowTile<Index> tile = window_rows<Index, TH>(p, at, start_d, start_h);
  tile.columns = tile_taps(w, TW, at.first, start_w, clip_columns);
  if (has_none(tile.taps_d) || has_none(tile.rows) || has_none(tile.columns)) {
    tile.rows.last = tile.rows.first;
  } else {
    const Index first_column = start_w + tile.columns.first * dilation_w;
    tile.first = first_input(p, at, tile, start_d, start_h, first_column);
  }
  return tile;
}

// From the tile's first input to that in a row and a column of it.
template <typename Index>
Index input_at(
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row,
    Index column) {
  return (kd - tile.taps_d.first) * dilation_d * Index(p.x.step[0]) +
      (row - tile.rows.first) * dilation_h * Index(p.x.step[1]) +
      (column - tile.columns.first) * dilation_w * Index(p.x.step[2]);
}

// With known_columns, those of a tile are unrolled, inside the input or not.
template <int TW>
bool is_column(int column) {
  return column < kernel_w + (TW - 1) * stride_w;
}

// A row of them, or the nearest ones inside the input, so that no load waits
// behind a branch: every output's window that has the column has that one.
template <int TW, typename T, typename Index, int V>
void load_columns(
    thread Pack<T, V>* columns,
    const device T* from,
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row) {
  MLX_POOLING_UNROLL
  for (int j = 0; j < kMostColumns; ++j) {
    if (is_column<TW>(j)) {
      const Index column = nearest_in(tile.columns, Index(j));
      columns[j] = load<V>(from + input_at(p, tile, kd, row, column));
    }
  }
}

// The tap of the tile's window `t` that row or column `at` of the tile is;
// negative where it is none.
template <typename Index>
Index tap_in_tile(Axis<Index> axis, Index at, int t) {
  const Index tap = at - t * axis.stride;
  return tap < axis.taps ? tap : Index(-1);
}

// The first tap inside the input of the tile's window `t`; negative where it
// has none.
template <typename Index>
Index first_tap_in(Axis<Index> axis, Range<Index> taps, int t) {
  const Index before = t * axis.stride;
  const Index first = max(taps.first - before, Index(0));
  return first < min(taps.last - before, axis.taps) ? first : Index(-1);
}

// The number of the first tap inside the input of the tile's window (u, t), ~0u
// where there is none.
template <typename Index>
uint first_valid_tap(
    Axis<Index> along_h,
    Axis<Index> along_w,
    WindowTile<Index> tile,
    int u,
    int t) {
  const Index kh = first_tap_in(along_h, tile.rows, u);
  const Index kw = first_tap_in(along_w, tile.columns, t);
  const uint row = uint(tile.taps_d.first) * uint(along_h.taps) + uint(kh);
  return has_none(tile.taps_d) || kh < 0 || kw < 0
      ? ~0u
      : row * uint(along_w.taps) + uint(kw);
}
