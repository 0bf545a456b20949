#pragma once

#include "common.h"

// From outputs to the inputs in their windows: forward kernels.

// The windows of TW neighbouring outputs along W.
template <typename Index>
struct WindowTile {
  Index start_d; // input position of tap 0 of the first window
  Index start_h;
  Index start_w;
  Range<Index> taps_d; // inside the input
  Range<Index> taps_h;
  Range<Index> columns; // input columns from start_w, in steps of column_step
  Index column_step;
};

template <typename Index, int TW>
WindowTile<Index> window_tile(constant PoolParams& p, Place<Index> at) {
  WindowTile<Index> tile;
  tile.start_d = at.d * stride_d - Index(p.pad_lo[0]);
  tile.start_h = at.h * stride_h - Index(p.pad_lo[1]);
  tile.start_w = at.first * stride_w - Index(p.pad_lo[2]);
  tile.taps_d = {0, kernel_d};
  tile.taps_h = {0, kernel_h};
  if (clip_rows) {
    tile.taps_d =
        valid_taps<Index>(tile.start_d, p.in[0], kernel_d, dilation_d);
    tile.taps_h =
        valid_taps<Index>(tile.start_h, p.in[1], kernel_h, dilation_h);
  }
  if (TW > 1) {
    // The host tiles only windows that overlap and are not dilated.
    tile.columns = {0, (TW - 1) * stride_w + kernel_w};
    tile.column_step = 1;
  } else {
    tile.columns = {0, kernel_w};
    tile.column_step = dilation_w;
  }
  if (clip_columns) {
    tile.columns = valid_taps<Index>(
        tile.start_w, p.in[2], tile.columns.last, tile.column_step);
  }
  if (has_none(tile.taps_d) || has_none(tile.taps_h)) {
    tile.columns.last = tile.columns.first;
  }
  return tile;
}

// First channel of the input that is tap (kd, kh) of column `column`.
template <typename Index>
Index input_at(
    constant PoolParams& p,
    Place<Index> at,
    WindowTile<Index> tile,
    Index kd,
    Index kh,
    Index column) {
  const Index d = tile.start_d + kd * dilation_d;
  const Index h = tile.start_h + kh * dilation_h;
  const Index w = tile.start_w + column * tile.column_step;
  const Index row = (at.n * Index(p.in[0]) + d) * Index(p.in[1]) + h;
  return (row * Index(p.in[2]) + w) * Index(p.channels) + at.channel;
}
