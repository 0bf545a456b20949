#include "best.h"
#include "windows.h"

// Lets the taps of a row into its TW windows, `first_tap` and those behind it.
// No window has one yet where it takes `least` for its best.
template <typename T, typename Tap, typename Index, int V, int TW>
void take_row(
    thread Best<T, V, Tap>* best,
    const device T* from,
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row,
    uint first_tap) {
  const Axis<Index> along_w = axis_w<Index>(p);
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    const Pack<T, V> v = load<V>(from + input_at(p, tile, kd, row, j));
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const Index kw = tap_in_tile(along_w, j, t);
      if (kw >= 0) {
        MLX_POOLING_UNROLL
        for (int i = 0; i < V; ++i) {
          take_next(best[t], i, v.v[i], Tap(first_tap + uint(kw)));
        }
      }
    }
  }
}

// A thread computes TH x TW neighbouring outputs for V channels. It reduces
// each input row over the windows' columns once, then takes the row into every
// output that has it, so overlapping windows share loads. Taps come in order.
template <typename T, typename Offset, typename Index, int V, int TH, int TW>
[[kernel]] void max_pool(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using Tap = typename TapNumber<Offset>::type;
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, TH, TW>(thread_at, p);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const device T* from = x + tile.first;

  Best<T, V, Tap> best[TH][TW];
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      best[u][t] = no_best<T, V, Tap>();
    }
  }
  for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
    for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
      const uint taps_above = uint(kd) * uint(along_h.taps);
      if (TH == 1) {
        const uint first_tap = (taps_above + uint(r)) * uint(along_w.taps);
        take_row<T, Tap, Index, V, TW>(
            best[0], from, p, tile, kd, r, first_tap);
        continue;
      }
      Best<T, V, Tap> row[TW];
      MLX_POOLING_UNROLL
      for (int t = 0; t < TW; ++t) {
        row[t] = no_best<T, V, Tap>();
      }
      take_row<T, Tap, Index, V, TW>(row, from, p, tile, kd, r, 0u);
      MLX_POOLING_UNROLL
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile(along_h, r, u);
        const uint first_tap = (taps_above + uint(kh)) * uint(along_w.taps);
        if (kh >= 0) {
          MLX_POOLING_UNROLL
          for (int t = 0; t < TW; ++t) {
            MLX_POOLING_UNROLL
            for (int i = 0; i < V; ++i) {
              const Tap tap = Tap(first_tap + row[t].tap[i]);
              take_next(best[u][t], i, row[t].value[i], tap);
            }
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
      const Tap otherwise = Tap(first_valid_tap(along_h, along_w, tile, u, t));
      Pack<T, V> values;
      Pack<Offset, V> taps;
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        const Tap tap = best[u][t].tap[i];
        values.v[i] = best[u][t].value[i];
        taps.v[i] = Offset(is_none(tap) ? otherwise : tap);
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
