#pragma once

#include "common.h"

// One axis' factor of the number of taps that an average counts: the
// arithmetic of Geometry::divisor.
template <typename Index>
Index counted_taps(
    Index o,
    Index in,
    Index out,
    Index pad_lo,
    Index pad_hi,
    Index taps,
    Index stride,
    Index dilation,
    bool adaptive) {
  const Index start = window_start<Index>(o, in, out, stride, pad_lo, adaptive);
  if (adaptive) {
    return adaptive_taps<Index>(o, start, in, out);
  }
  const Range<Index> valid = valid_taps<Index>(start, in, taps, dilation);
  const Range<Index> padded =
      valid_taps<Index>(start, in + pad_hi, taps, dilation);
  const Index counted =
      count_include_pad ? padded.last : valid.last - valid.first;
  return max(counted, Index(1));
}

// What the sum of the window of output (d, h, w) is divided by.
template <typename A, typename Index>
A window_divisor(constant PoolParams& p, Index d, Index h, Index w) {
  if (uniform_divisor) {
    return A(p.divisor);
  }
  const Index along_d = counted_taps<Index>(
      d, p.in[0], p.out[0], p.pad_lo[0], p.pad_hi[0], kernel_d, stride_d,
      dilation_d, adaptive_d);
  const Index along_h = counted_taps<Index>(
      h, p.in[1], p.out[1], p.pad_lo[1], p.pad_hi[1], kernel_h, stride_h,
      dilation_h, adaptive_h);
  const Index along_w = counted_taps<Index>(
      w, p.in[2], p.out[2], p.pad_lo[2], p.pad_hi[2], kernel_w, stride_w,
      dilation_w, adaptive_w);
  return A(along_d) * A(along_h) * A(along_w);
}
