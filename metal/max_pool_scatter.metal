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
      const uint tap_row =
          (uint(kd) * uint(kernel_h) + uint(kh)) * uint(kernel_w);
      for (Index w = tile.windows_w.first; w < tile.windows_w.last; ++w) {
        const Index from = output_at<Index>(p, at, d, h, w);
        const Pack<Offset, V> winner = load<V>(offsets + from);
        const Pack<T, V> cotangent = load<V>(dy + from);
        for (int t = 0; t < TW; ++t) {
          const Index kw = column_tap(p, tile, t, w);
          for (int i = 0; i < V; ++i) {
            const bool won = kw >= 0 && uint(winner.v[i]) == tap_row + uint(kw);
            total[t][i] += won ? A(cotangent.v[i]) : A(0);
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
