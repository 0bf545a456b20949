#pragma once

#include "common.h"

// From outputs to the inputs in their windows: forward kernels.

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
  tile.start_d = window_start<Index>(
      at.d, p.in[0], p.out[0], stride_d, p.pad_lo[0], adaptive_d);
  tile.start_h = window_start<Index>(
      at.h, p.in[1], p.out[1], stride_h, p.pad_lo[1], adaptive_h);
  tile.start_w = window_start<Index>(
      at.first, p.in[2], p.out[2], stride_w, p.pad_lo[2], adaptive_w);
  tile.taps_d = window_taps<Index>(
      at.d, tile.start_d, p.in[0], p.out[0], kernel_d, dilation_d, clip_rows,
      adaptive_d);
  tile.taps_h = window_taps<Index>(
      at.h, tile.start_h, p.in[1], p.out[1], kernel_h, dilation_h, clip_rows,
      adaptive_h);
  // The host tiles only windows that overlap, alike and not dilated.
  const Index span = TW > 1 ? (TW - 1) * stride_w + kernel_w : kernel_w;
  tile.column_step = TW > 1 ? 1 : dilation_w;
  tile.columns = window_taps<Index>(
      at.first, tile.start_w, p.in[2], p.out[2], span, tile.column_step,
      clip_columns, adaptive_w);
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
