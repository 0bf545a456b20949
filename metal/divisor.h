#pragma once

#include "common.h"

// What sums are divided by: the arithmetic of Geometry::divisor.

// One axis' factor of the number of taps that an average counts, for a window
// of `taps` that starts at `start`.
template <typename Index>
Index counted_taps(Axis<Index> axis, Index start, Index taps) {
  if (axis.adaptive) {
    return taps;
  }
  const Range<Index> valid = valid_taps(axis, start, axis.in);
  const Range<Index> padded = valid_taps(axis, start, axis.in + axis.pad_hi);
  const Index counted =
      count_include_pad ? padded.last : valid.last - valid.first;
  return max(counted, Index(1));
}

// That factor; 1 where all windows have the same divisor.
template <typename Index>
float own_divisor(Axis<Index> axis, Index start, Index taps) {
  return uniform_divisor ? 1.0f : float(counted_taps(axis, start, taps));
}

// Of window o.
template <typename Index>
float own_divisor(Axis<Index> axis, Index o) {
  const Index start = window_start(axis, o);
  const Index taps = axis.adaptive ? adaptive_taps(axis, o, start) : axis.taps;
  return own_divisor(axis, start, taps);
}

// The divisor that all windows have, or else 1.
inline float common_divisor(constant PoolParams& p) {
  return uniform_divisor ? p.divisor : 1.0f;
}
