#include "divisor.h"
#include "windows.h"

// A thread computes TW neighbouring outputs along W for V channels, summing
// each input column over the windows' rows once, as max_pool does.
template <typename T, typename Index, int V, int TW>
[[kernel]] void avg_pool(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant PoolParams& p [[buffer(3)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Place<Index> at =
      place<Index, V, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const WindowTile<Index> tile = window_tile<Index, TW>(p, at);

  A total[TW][V] = {};
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    A column[V] = {};
    for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
      for (Index kh = tile.taps_h.first; kh < tile.taps_h.last; ++kh) {
        const Pack<T, V> v = load<V>(x + input_at(p, at, tile, kd, kh, j));
        for (int i = 0; i < V; ++i) {
          column[i] += A(v.v[i]);
        }
      }
    }
    for (int t = 0; t < TW; ++t) {
      const Index kw = j - t * stride_w;
      for (int i = 0; kw >= 0 && kw < kernel_w && i < V; ++i) {
        total[t][i] += column[i];
      }
    }
  }

  for (int t = 0; t < TW && at.first + t < Index(p.out[2]); ++t) {
    const A divisor = window_divisor<A, Index>(p, at.d, at.h, at.first + t);
    for (int i = 0; i < V; ++i) {
      total[t][i] /= divisor;
    }
    store<V>(
        y + own_element(at, t, p.out[2], p.channels), rounded<T, V>(total[t]));
  }
}
