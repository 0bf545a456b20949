#include "best.h"
#include "windows.h"

// A thread computes TH x TW neighbouring outputs for V channels. It reduces
// each input column over the windows' rows once, then takes the column into
// every output that has it, so overlapping windows share loads.
template <typename T, typename Offset, typename Index, int V, int TH, int TW>
[[kernel]] void max_pool(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, TH, TW>(thread_at, p);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const device T* from = x + tile.first;

  Best<T, V> best[TH][TW];
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      best[u][t] = no_best<T, V>();
    }
  }
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    Best<T, V> column[TH];
    MLX_POOLING_UNROLL
    for (int u = 0; u < TH; ++u) {
      column[u] = no_best<T, V>();
    }
    for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
      for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
        const Pack<T, V> v = load<V>(from + input_at(p, tile, kd, r, j));
        MLX_POOLING_UNROLL
        for (int u = 0; u < TH; ++u) {
          const Index kh = tap_in_tile(along_h, r, u);
          const uint tap_row = uint(kd) * uint(along_h.taps) + uint(kh);
          if (kh >= 0) {
            MLX_POOLING_UNROLL
            for (int i = 0; i < V; ++i) {
              take(column[u], i, v.v[i], tap_row);
            }
          }
        }
      }
    }
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const Index kw = tap_in_tile(along_w, j, t);
      if (kw >= 0) {
        MLX_POOLING_UNROLL
        for (int u = 0; u < TH; ++u) {
          MLX_POOLING_UNROLL
          for (int i = 0; i < V; ++i) {
            const uint tap =
                tap_in_row(column[u].tap[i], uint(along_w.taps), uint(kw));
            take(best[u][t], i, column[u].value[i], tap);
          }
        }
      }
    }
  }

  const int64_t own = own_element(p.y, at);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const int64_t to = own + neighbour<Index>(p.y, u, t);
      Pack<T, V> values;
      Pack<Offset, V> taps;
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        values.v[i] = best[u][t].value[i];
        taps.v[i] = Offset(best[u][t].tap[i]);
      }
      if (has_neighbour(p, at, u, t)) {
        store<V>(y + to, values);
      }
      if (with_offsets && has_neighbour(p, at, u, t)) {
        store<V>(offsets + to, taps);
      }
    }
  }
}
