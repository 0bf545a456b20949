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
  const Place<Index> at =
      place<Index, 1, 1, 1>(thread_at, p.first_row, p.out[0], p.out[1]);
  const Index to = own_element(at, 0, 0, p.out[2], p.channels);
  const Offset offset = offsets[to];
  if (offset == Offset(~Offset(0))) {
    y[to] = with_values ? T(0) : T(~T(0));
    return;
  }
  const uint tap = offset;
  const uint tap_row = tap / uint(kernel_w);
  const Index d =
      window_start<Index>(
          at.d, p.in[0], p.out[0], stride_d, p.pad_lo[0], adaptive_d) +
      Index(tap_row / uint(kernel_h)) * dilation_d;
  const Index h =
      window_start<Index>(
          at.h, p.in[1], p.out[1], stride_h, p.pad_lo[1], adaptive_h) +
      Index(tap_row % uint(kernel_h)) * dilation_h;
  const Index w =
      window_start<Index>(
          at.first, p.in[2], p.out[2], stride_w, p.pad_lo[2], adaptive_w) +
      Index(tap % uint(kernel_w)) * dilation_w;
  const Index position = (d * Index(p.in[1]) + h) * Index(p.in[2]) + w;
  if (with_values) {
    const Index plane = Index(p.in[0]) * Index(p.in[1]) * Index(p.in[2]);
    y[to] = t[(at.n * plane + position) * Index(p.channels) + at.channel];
  } else {
    y[to] = T(position);
  }
}
