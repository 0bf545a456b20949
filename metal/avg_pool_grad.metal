#include "shares.h"

// A thread computes TW neighbouring inputs along W for V channels: each adds
// up its shares of the cotangents of all windows around it. Windows in one
// column have the same inputs along W, so that they are added up first.
template <typename T, typename Index, int V, int TW>
[[kernel]] void avg_pool_grad(
    const device T* dy [[buffer(0)]],
    device T* dx [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Axis<Index> along_d = axis_d<Index>(p);
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);
  const device T* from = dy + tile.first;

  A total[TW][V] = {};
  Cover<Index> by_w = tile.w.first;
  for (Index w = tile.w.windows.first; w < tile.w.windows.last; ++w) {
    A column[V] = {};
    Cover<Index> by_d = tile.d.first;
    for (Index d = tile.d.windows.first; d < tile.d.windows.last; ++d) {
      const bool has_d = tap_of(along_d, by_d) >= 0;
      const float share_d = own_share(along_d, by_d, at.d);
      Cover<Index> by_h = tile.h.first;
      for (Index h = tile.h.windows.first; h < tile.h.windows.last; ++h) {
        if (has_d && tap_of(along_h, by_h) >= 0) {
          const float share = share_d * own_share(along_h, by_h, at.h);
          const Pack<T, V> cotangent =
              load<V>(from + output_at(p, tile, d, h, w));
          MLX_POOLING_UNROLL
          for (int i = 0; i < V; ++i) {
            column[i] += A(cotangent.v[i]) * share;
          }
        }
        by_h = in_next_window(along_h, by_h);
      }
      by_d = in_next_window(along_d, by_d);
    }
    const float share_w = own_share(along_w, by_w, at.first);
    Cover<Index> by_input = by_w;
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      if (tap_of(along_w, by_input) >= 0) {
        MLX_POOLING_UNROLL
        for (int i = 0; i < V; ++i) {
          total[t][i] += column[i] * share_w;
        }
      }
      by_input = of_next_input(along_w, by_input);
    }
    by_w = in_next_window(along_w, by_w);
  }

  device T* own = dx + own_element(p.x, at);
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (has_column(p, at, t)) {
      store<V>(
          own + neighbour<Index>(p.x, 0, t),
          quotients<T, V>(total[t], common_divisor(p)));
    }
  }
}
