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

template <typename Index, int TH, int TW>
WindowTile<Index> window_tile(constant PoolParams& p, Place<Index> at) {
  const Axis<Index> d = axis_d<Index>(p);
  const Axis<Index> h = axis_h<Index>(p);
  const Axis<Index> w = axis_w<Index>(p);
  const Index start_d = window_start(d, at.d);
  const Index start_h = window_start(h, at.h);
  const Index start_w = window_start(w, at.first);
  WindowTile<Index> tile;
  tile.taps_d = window_taps(d, at.d, start_d, clip_rows);
  // The host tiles only windows that overlap, alike and not dilated.
  tile.rows = tile_taps(h, TH, at.h, start_h, clip_rows);
  tile.columns = tile_taps(w, TW, at.first, start_w, clip_columns);
  tile.first = 0;
  if (has_none(tile.taps_d) || has_none(tile.rows) || has_none(tile.columns)) {
    tile.columns.last = tile.columns.first;
  } else {
    tile.first = at.channel +
        element(p.x, at.n, start_d + tile.taps_d.first * dilation_d,
                start_h + tile.rows.first * dilation_h,
                start_w + tile.columns.first * dilation_w);
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

// The tap of the tile's window `t` that row or column `at` of the tile is;
// negative where it is none.
template <typename Index>
Index tap_in_tile(Index at, int t, Index taps, Index stride) {
  const Index tap = at - t * stride;
  return tap < taps ? tap : Index(-1);
}
