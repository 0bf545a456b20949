#include "covers.h"
#include "divisor.h"

// A thread computes TW neighbouring inputs along W for V channels: each adds
// up its shares of the cotangents of all windows around it.
template <typename T, typename Index, int V, int TW>
[[kernel]] void avg_pool_grad(
    const device T* dy [[buffer(0)]],
    device T* dx [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Place<Index> at =
      place<Index, V, 1, TW>(thread_at, p.first_row, p.in[0], p.in[1]);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);

  A total[TW][V] = {};
  for (Index d = tile.windows_d.first; d < tile.windows_d.last; ++d) {
    for (Index h = tile.windows_h.first; h < tile.windows_h.last; ++h) {
      Index kd;
      Index kh;
      if (!row_has_taps(p, tile, d, h, kd, kh)) {
        continue;
      }
      for (Index w = tile.windows_w.first; w < tile.windows_w.last; ++w) {
        const A divisor = window_divisor<A, Index>(p, d, h, w);
        const Pack<T, V> cotangent =
            load<V>(dy + output_at<Index>(p, at, d, h, w));
        for (int t = 0; t < TW; ++t) {
          const bool covered = column_tap(p, tile, t, w) >= 0;
          for (int i = 0; i < V; ++i) {
            total[t][i] += covered ? A(cotangent.v[i]) / divisor : A(0);
          }
        }
      }
    }
  }

  for (int t = 0; t < TW && at.first + t < Index(p.in[2]); ++t) {
    store<V>(
        dx + own_element(at, 0, t, p.in[2], p.channels),
        rounded<T, V>(total[t]));
  }
}
