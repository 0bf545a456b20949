#include "best.h"
#include "windows.h"

// Lets values into the windows that have column j; in window 0 they are tap
// number `tap`. In new ones the first column has none to beat.
template <typename T, typename Number, typename Index, int V, int TW>
void take_into_windows(
    thread Best<T, V, Number>* best,
    Pack<T, V> values,
    Axis<Index> along_w,
    Index j,
    uint tap,
    bool is_new) {
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    const Index kw = tap_in_tile(along_w, j, t);
    if (kw >= 0) {
      const Number own = Number(tap - uint(t) * uint(along_w.stride));
      const bool is_first = is_new && kw == 0;
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        const T v = values.v[i];
        const bool takes = is_first || takes_over(v, best[t].value[i]);
        replace_if(takes, best[t], i, v, own);
      }
    }
  }
}

// Lets a row's taps into its TW windows, of which they are number `first_tap`
// and those behind it.
template <typename T, typename Number, typename Index, int V, int TW>
void take_row(
    thread Best<T, V, Number>* best,
    const device T* from,
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row,
    uint first_tap,
    bool is_new) {
  const Axis<Index> along_w = axis_w<Index>(p);
  if (known_columns) {
    Pack<T, V> columns[kMostColumns];
    load_columns<TW>(columns, from, p, tile, kd, row);
    MLX_POOLING_UNROLL
    for (int j = 0; j < kMostColumns; ++j) {
      if (is_column<TW>(j)) {
        const uint tap = first_tap + uint(nearest_in(tile.columns, Index(j)));
        take_into_windows<T, Number, Index, V, TW>(
            best, columns[j], along_w, Index(j), tap, is_new);
      }
    }
    return;
  }
  // Windows may begin outside the input.
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    const Pack<T, V> v = load<V>(from + input_at(p, tile, kd, row, j));
    take_into_windows<T, Number, Index, V, TW>(
        best, v, along_w, j, first_tap + uint(j), false);
  }
}

// The same of TH rows of windows: their columns are compared once for all that
// have the row.
template <typename T, typename Number, typename Index, int V, int TH, int TW>
void take_shared_row(
    thread Best<T, V, Number> (*best)[TW],
    const device T* from,
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row,
    uint rows_above) {
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  Best<T, V, Number> own[TW];
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    own[t] = no_best<T, V, Number>();
  }
  take_row<T, Number, Index, V, TW>(own, from, p, tile, kd, row, 0u, true);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    const Index kh = tap_in_tile(along_h, row, u);
    const uint first_tap = (rows_above + uint(kh)) * uint(along_w.taps);
    if (kh >= 0) {
      MLX_POOLING_UNROLL
      for (int t = 0; t < TW; ++t) {
        MLX_POOLING_UNROLL
        for (int i = 0; i < V; ++i) {
          const Number tap = Number(first_tap + own[t].tap[i]);
          take_better(best[u][t], i, own[t].value[i], tap);
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
  using Number = typename TapNumber<Offset>::type;
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, TH, TW>(thread_at, p);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const device T* from = x + tile.first;

  Best<T, V, Number> best[TH][TW];
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      best[u][t] = no_best<T, V, Number>();
    }
  }
  for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
    const uint rows_above = uint(kd) * uint(along_h.taps);
    for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
      if (TH == 1) {
        const uint first_tap = (rows_above + uint(r)) * uint(along_w.taps);
        take_row<T, Number, Index, V, TW>(
            best[0], from, p, tile, kd, r, first_tap, false);
      } else {
        take_shared_row<T, Number, Index, V, TH, TW>(
            best, from, p, tile, kd, r, rows_above);
      }
    }
  }

  const int64_t own = own_element(p.y, at);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const int64_t to = own + neighbour<Index>(p.y, u, t);
      const Number otherwise =
          Number(first_valid_tap(along_h, along_w, tile, u, t));
      Pack<T, V> values;
      Pack<Offset, V> taps;
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        const Number tap = best[u][t].tap[i];
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
