#include "common.h"

// A thread reads the element that won one output's window: from t, or without
// values from the grid of flat spatial positions. T is any type of that size.
template <typename T, typename Offset, typename Index>
[[kernel]] void max_pool_gather(
    const device Offset* offsets [[buffer(0)]],
    device T* y [[buffer(1)]],
    const device T* t [[buffer(2), function_constant(with_values)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at = place<Index, 1, 1, 1>(thread_at, p);
  const int64_t to = own_element(p.y, at);
  const Offset offset = offsets[to];
  if (is_none(offset)) {
    y[to] = with_values ? T(0) : T(~T(0));
    return;
  }
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const uint tap = offset;
  const uint tap_row = tap / uint(along_w.taps);
  const Index d = window_start(axis_d<Index>(p), at.d) +
      Index(tap_row / uint(along_h.taps)) * dilation_d;
  const Index h = window_start(along_h, at.h) +
      Index(tap_row % uint(along_h.taps)) * dilation_h;
  const Index w = window_start(along_w, at.first) +
      Index(tap % uint(along_w.taps)) * dilation_w;
  if (with_values) {
    y[to] = t[element(p.x, at.n, d, h, w) + at.channel];
  } else {
    y[to] = T((uint(d) * uint(p.in[1]) + uint(h)) * uint(p.in[2]) + uint(w));
  }
}
