#pragma once

#include "common.h"

// From outputs to the inputs in their windows: forward kernels.

// The windows of TH x TW neighbouring outputs.
template <typename Index>
struct WindowTile {
  Index start_d; // input position of tap 0 of the first window
  Index start_h;
  Index start_w;
  Range<Index> taps_d;  // inside the input
  Range<Index> rows;    // from start_h, in steps of dilation_h
  Range<Index> columns; // from start_w, in steps of dilation_w
};

template <typename Index, int TH, int TW>
WindowTile<Index> window_tile(constant PoolParams& p, Place<Index> at) {
  WindowTile<Index> tile;
  tile.start_d = window_start<Index>(
      at.d, p.in[0], p.out[0], stride_d, p.pad_lo[0], adaptive_d);
  tile.start_h = window_start<Index>(
      at.h, p.in[1], p.out[1], stride_h, p.pad_lo[1], adaptive_h);
  tile.start_w = window_start<Index>(
      at.first, p.in[2], p.out[2], stride_w, p.pad_lo[2], adaptive_w);
  tile.taps_d = window_taps<Index>(
      at.d, tile.start_d, p.in[0], p.out[0], kernel_d, dilation_d, clip_rows,
      adaptive_d);
  // The host tiles only windows that overlap, alike and not dilated.
  tile.rows = window_taps<Index>(
      at.h, tile.start_h, p.in[1], p.out[1], (TH - 1) * stride_h + kernel_h,
      dilation_h, clip_rows, adaptive_h);
  tile.columns = window_taps<Index>(
      at.first, tile.start_w, p.in[2], p.out[2], (TW - 1) * stride_w + kernel_w,
      dilation_w, clip_columns, adaptive_w);
  if (has_none(tile.taps_d) || has_none(tile.rows)) {
    tile.columns.last = tile.columns.first;
  }
  return tile;
}

// First channel of the input in a row and a column of the tile.
template <typename Index>
Index input_at(
    constant PoolParams& p,
    Place<Index> at,
    WindowTile<Index> tile,
    Index kd,
    Index row,
    Index column) {
  const Index d = tile.start_d + kd * dilation_d;
  const Index h = tile.start_h + row * dilation_h;
  const Index w = tile.start_w + column * dilation_w;
  const Index row_at = (at.n * Index(p.in[0]) + d) * Index(p.in[1]) + h;
  return (row_at * Index(p.in[2]) + w) * Index(p.channels) + at.channel;
}

// The tap of the tile's window `t` that row or column `at` of the tile is;
// negative where it is none.
template <typename Index>
Index tap_in_tile(Index at, int t, Index taps, Index stride) {
  const Index tap = at - t * stride;
  return tap < taps ? tap : Index(-1);
}
