#pragma once

#include "common.h"

// Passes over one axis, W of an array (rows, W, channels), that large windows
// are taken apart into. TW neighbouring windows all reach the seam, column
// (TW - 1) * stride_w: each is a run of columns that ends there and one that
// begins there, and the runs of neighbours grow out of each other. So a column
// is loaded and compared once for all of them, however large they are.
template <typename Index>
struct Sweep {
  Index start;          // input position of column 0
  Range<Index> columns; // inside the input, in steps of dilation_w
};

template <typename Index, int TW>
Sweep<Index> window_sweep(constant PoolParams& p, Place<Index> at) {
  Sweep<Index> sweep;
  sweep.start = window_start<Index>(
      at.first, p.in[2], p.out[2], stride_w, p.pad_lo[2], adaptive_w);
  sweep.columns = window_taps<Index>(
      at.first, sweep.start, p.in[2], p.out[2], (TW - 1) * stride_w + kernel_w,
      dilation_w, clip_columns, adaptive_w);
  return sweep;
}

template <typename Index>
Range<Index> meet(Range<Index> a, Index first, Index last) {
  return {max(a.first, first), min(a.last, last)};
}

// Before the seam: columns of window t that window t + 1 does not have.
template <typename Index>
Range<Index> columns_before(Sweep<Index> sweep, int t) {
  return meet<Index>(sweep.columns, t * stride_w, (t + 1) * stride_w);
}

// From the seam on: columns of window t that window t - 1 does not have.
template <typename Index, int TW>
Range<Index> columns_after(Sweep<Index> sweep, int t) {
  const Index first =
      t == 0 ? (TW - 1) * stride_w : (t - 1) * stride_w + kernel_w;
  return meet<Index>(sweep.columns, first, t * stride_w + kernel_w);
}

// First channel of a column of the sweep.
template <typename Index>
Index swept_element(
    constant PoolParams& p, Place<Index> at, Sweep<Index> sweep, Index column) {
  const Index w = sweep.start + column * dilation_w;
  return (at.row * Index(p.in[2]) + w) * Index(p.channels) + at.channel;
}
