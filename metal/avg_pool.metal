#include "average.h"
#include "windows.h"

// Adds values of column j to the windows that have it.
template <typename T, typename A, typename Index, int V, int TW>
void add_to_windows(
    thread A (*sums)[V],
    constant PoolParams& p,
    Pack<T, V> values,
    Axis<Index> along_w,
    Index j) {
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (tap_in_tile(along_w, j, t) >= 0) {
      add_pack<V>(p, sums[t], values);
    }
  }
}

// Adds a row to its TW windows.
template <typename T, typename A, typename Index, int V, int TW>
void add_row(
    thread A (*sums)[V],
    const device T* from,
    constant PoolParams& p,
    WindowTile<Index> tile,
    Index kd,
    Index row) {
  const Axis<Index> along_w = axis_w<Index>(p);
  if (known_columns) {
    Pack<T, V> columns[kMostColumns];
    load_columns<TW>(columns, from, p, tile, kd, row);
    MLX_POOLING_UNROLL
    for (int j = 0; j < kMostColumns; ++j) {
      if (is_column<TW>(j)) {
        if (!contains(tile.columns, Index(j))) {
          MLX_POOLING_UNROLL
          for (int i = 0; i < V; ++i) {
            columns[j].v[i] = blank<T>(p);
          }
        }
        add_to_windows<T, A, Index, V, TW>(
            sums, p, columns[j], along_w, Index(j));
      }
    }
    return;
  }
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    const Pack<T, V> v = load<V>(from + input_at(p, tile, kd, row, j));
    add_to_windows<T, A, Index, V, TW>(sums, p, v, along_w, j);
  }
}

// A thread computes TH x TW neighbouring outputs for V channels, summing each
// input row over the windows' columns once, as max_pool does.
template <typename From, typename To, typename Index, int V, int TH, int TW>
[[kernel]] void avg_pool(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Sum<To>::type;
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, TH, TW>(thread_at, p);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const device From* from = x + tile.first;

  A total[TH][TW][V] = {};
  for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
    A row[TW][V] = {};
    for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
      add_row<From, A, Index, V, TW>(row, from, p, tile, kd, r);
    }
    MLX_POOLING_UNROLL
    for (int u = 0; u < TH; ++u) {
      if (tap_in_tile(along_h, r, u) >= 0) {
        MLX_POOLING_UNROLL
        for (int t = 0; t < TW; ++t) {
          MLX_POOLING_UNROLL
          for (int i = 0; i < V; ++i) {
            total[u][t][i] += row[t][i];
          }
        }
      }
    }
  }

  const float divisor_d = own_divisor(axis_d<Index>(p), at.d);
  device To* own = y + own_element(p.y, at);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    const float divisor_h = own_divisor(along_h, at.h + u);
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const float divisor_w = own_divisor(along_w, at.first + t);
      const float divisor =
          window_divisor(p, divisor_d * divisor_h * divisor_w);
      const Pack<To, V> means = averages<To, V>(p, total[u][t], divisor);
      if (has_neighbour(p, at, u, t)) {
        store<V>(own + neighbour<Index>(p.y, u, t), means);
      }
    }
  }
}
