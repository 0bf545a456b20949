#pragma once

#include "common.h"

// From inputs to the outputs whose windows contain them: backward kernels.

// The windows of an axis of size `out` that may contain a position in
// [reach_first, reach_last], both counted from the padding's edge.
template <typename Index>
Range<Index> covering_windows(
    Index reach_first,
    Index reach_last,
    Index in,
    Index out,
    Index span,
    Index stride,
    bool adaptive) {
  if (adaptive) {
    return {
        reach_first * out / in,
        min(out, ((reach_last + 1) * out - 1) / in + 1)};
  }
  const Index last_before = reach_first - span;
  const Index first = last_before < 0 ? Index(0) : last_before / stride + 1;
  return {first, min(out, reach_last / stride + 1)};
}

// The tap that a position, counted from the padding's edge, is of window o; -1
// where it is none.
template <typename Index>
Index tap_at(
    Index reach,
    Index o,
    Index in,
    Index out,
    Index taps,
    Index stride,
    Index dilation,
    bool adaptive) {
  const Index distance =
      reach - window_start<Index>(o, in, out, stride, 0, adaptive);
  if (adaptive) {
    const Index own_taps = adaptive_taps<Index>(o, reach - distance, in, out);
    return distance < own_taps ? distance : Index(-1);
  }
  const bool is_tap =
      distance >= 0 && distance % dilation == 0 && distance / dilation < taps;
  return is_tap ? distance / dilation : Index(-1);
}

// The windows around TW neighbouring inputs along W.
template <typename Index>
struct CoverTile {
  Index reach_d; // position of the first input from the padding's edge
  Index reach_h;
  Index reach_w;
  Range<Index> windows_d;
  Range<Index> windows_h;
  Range<Index> windows_w;
};

template <typename Index, int TW>
CoverTile<Index> cover_tile(constant PoolParams& p, Place<Index> at) {
  CoverTile<Index> tile;
  tile.reach_d = at.d + Index(p.pad_lo[0]);
  tile.reach_h = at.h + Index(p.pad_lo[1]);
  tile.reach_w = at.first + Index(p.pad_lo[2]);
  const Index span_d = Index(kernel_d - 1) * dilation_d + 1;
  const Index span_h = Index(kernel_h - 1) * dilation_h + 1;
  const Index span_w = Index(kernel_w - 1) * dilation_w + 1;
  tile.windows_d = covering_windows<Index>(
      tile.reach_d, tile.reach_d, p.in[0], p.out[0], span_d, stride_d,
      adaptive_d);
  tile.windows_h = covering_windows<Index>(
      tile.reach_h, tile.reach_h, p.in[1], p.out[1], span_h, stride_h,
      adaptive_h);
  tile.windows_w = covering_windows<Index>(
      tile.reach_w, tile.reach_w + (TW - 1), p.in[2], p.out[2], span_w,
      stride_w, adaptive_w);
  return tile;
}

// Whether windows of output row (d, h) contain the thread's input row; their
// tap row is then kd, kh.
template <typename Index>
bool row_has_taps(
    constant PoolParams& p,
    CoverTile<Index> tile,
    Index d,
    Index h,
    thread Index& kd,
    thread Index& kh) {
  kd = tap_at<Index>(
      tile.reach_d, d, p.in[0], p.out[0], kernel_d, stride_d, dilation_d,
      adaptive_d);
  kh = tap_at<Index>(
      tile.reach_h, h, p.in[1], p.out[1], kernel_h, stride_h, dilation_h,
      adaptive_h);
  return kd >= 0 && kh >= 0;
}

// The tap along W that the thread's input `t` is of window w; -1 for none.
template <typename Index>
Index column_tap(
    constant PoolParams& p, CoverTile<Index> tile, int t, Index w) {
  return tap_at<Index>(
      tile.reach_w + t, w, p.in[2], p.out[2], kernel_w, stride_w, dilation_w,
      adaptive_w);
}

// First channel of output (d, h, w).
template <typename Index>
Index output_at(
    constant PoolParams& p, Place<Index> at, Index d, Index h, Index w) {
  const Index row = (at.n * Index(p.out[0]) + d) * Index(p.out[1]) + h;
  return (row * Index(p.out[2]) + w) * Index(p.channels) + at.channel;
}

// Windows along W of the thread's row, which a sweep has one of for each of the
// outputs' rows.

// Those around TW neighbouring inputs.
template <typename Index, int TW>
Range<Index> windows_over(constant PoolParams& p, Place<Index> at) {
  const Index reach = at.first + Index(p.pad_lo[2]);
  const Index span = Index(kernel_w - 1) * dilation_w + 1;
  return covering_windows<Index>(
      reach, reach + (TW - 1), p.in[2], p.out[2], span, stride_w, adaptive_w);
}

// The tap that input w_in is of window w; -1 for none.
template <typename Index>
Index window_tap(constant PoolParams& p, Index w_in, Index w) {
  return tap_at<Index>(
      w_in + Index(p.pad_lo[2]), w, p.in[2], p.out[2], kernel_w, stride_w,
      dilation_w, adaptive_w);
}

// First channel of window w.
template <typename Index>
Index own_window(constant PoolParams& p, Place<Index> at, Index w) {
  return (at.row * Index(p.out[2]) + w) * Index(p.channels) + at.channel;
}
