#include "covers.h"

// A thread computes TW neighbouring inputs along W for V channels: each adds
// up the cotangents of the windows it won. A tile visits each window once.
template <typename T, typename Offset, typename Index, int V, int TW>
[[kernel]] void max_pool_scatter(
    const device Offset* offsets [[buffer(0)]],
    const device T* dy [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Axis<Index> along_d = axis_d<Index>(p);
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);
  const device Offset* winners = offsets + tile.first;
  const device T* from = dy + tile.first;

  A total[TW][V] = {};
  Cover<Index> by_d = tile.d.first;
  for (Index d = tile.d.windows.first; d < tile.d.windows.last; ++d) {
    const Index kd = tap_of(along_d, by_d);
    Cover<Index> by_h = tile.h.first;
    for (Index h = tile.h.windows.first; h < tile.h.windows.last; ++h) {
      const Index kh = tap_of(along_h, by_h);
      by_h = in_next_window(along_h, by_h);
      if (kd < 0 || kh < 0) {
        continue;
      }
      const uint tap_row =
          (uint(kd) * uint(along_h.taps) + uint(kh)) * uint(along_w.taps);
      Cover<Index> by_w = tile.w.first;
      for (Index w = tile.w.windows.first; w < tile.w.windows.last; ++w) {
        const Index at_window = output_at(p, tile, d, h, w);
        const Pack<Offset, V> winner = load<V>(winners + at_window);
        const Pack<T, V> cotangent = load<V>(from + at_window);
        Cover<Index> by_input = by_w;
        MLX_POOLING_UNROLL
        for (int t = 0; t < TW; ++t) {
          const Index kw = tap_of(along_w, by_input);
          if (kw >= 0) {
            MLX_POOLING_UNROLL
            for (int i = 0; i < V; ++i) {
              const bool won = uint(winner.v[i]) == tap_row + uint(kw);
              total[t][i] += won ? A(cotangent.v[i]) : A(0);
            }
          }
          by_input = of_next_input(along_w, by_input);
        }
        by_w = in_next_window(along_w, by_w);
      }
    }
    by_d = in_next_window(along_d, by_d);
  }

  device T* own = dx + own_element(p.x, at);
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (has_column(p, at, t)) {
      store<V>(own + neighbour<Index>(p.x, 0, t), rounded<T, V>(total[t]));
    }
  }
}
