#pragma once

#include "common.h"

// Passes over one axis, W of an array (rows, W, channels), that large windows
// are taken apart into. TW neighbouring windows all reach the seam, column
// (TW - 1) * stride_w: each is a run of columns that ends there and one that
// begins there, and the runs of neighbours grow out of each other. So a column
// is loaded and compared once for all of them, however large they are.
//
// The runs that end at the seam are kept, of as many windows as registers have
// room for. For the next windows the thread comes back to their columns.
template <typename Index>
struct Sweep {
  Range<Index> columns; // inside the input, in steps of dilation_w
  int64_t first;        // channel of the first of them
};

template <typename Index, int TW>
Sweep<Index> window_sweep(constant PoolParams& p, Place<Index> at) {
  const Axis<Index> w = axis_w<Index>(p);
  const Index start = window_start(w, at.first);
  Sweep<Index> sweep;
  sweep.columns = tile_taps(w, TW, at.first, start, clip_columns);
  sweep.first = 0;
  if (!has_none(sweep.columns)) {
    const Index column = start + sweep.columns.first * dilation_w;
    sweep.first = element(p.x, at.n, at.d, at.h, column) + at.channel;
  }
  return sweep;
}

template <typename Index>
Range<Index> meet(Range<Index> a, Index first, Index last) {
  return {max(a.first, first), min(a.last, last)};
}

// Before the seam: columns of window t that window `end` does not have.
template <typename Index, int TW>
Range<Index> columns_before(Sweep<Index> sweep, int t, int end) {
  return meet<Index>(sweep.columns, t * stride_w, min(end, TW - 1) * stride_w);
}

// From the seam on: columns of window t that window t - 1 does not have.
template <typename Index, int TW>
Range<Index> columns_after(Sweep<Index> sweep, int t) {
  const Index first =
      t == 0 ? (TW - 1) * stride_w : (t - 1) * stride_w + kernel_w;
  return meet<Index>(sweep.columns, first, t * stride_w + kernel_w);
}

// From the sweep's first column to another.
template <typename Index>
Index swept_element(constant PoolParams& p, Sweep<Index> sweep, Index column) {
  return (column - sweep.columns.first) * dilation_w * Index(p.x.step[2]);
}
