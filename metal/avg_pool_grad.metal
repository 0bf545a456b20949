#include "shares.h"

// Adds up the shares, along D and H, of the windows in N columns from w on.
// Where there is none, sums are those of the nearest one.
template <int N, int TW, typename A, typename T, typename Index, int V>
void sum_columns(
    thread A (*sums)[V],
    const device T* from,
    constant PoolParams& p,
    Place<Index> at,
    CoverTile<Index> tile,
    Index w) {
  const Axis<Index> along_d = axis_d<Index>(p);
  const Axis<Index> along_h = axis_h<Index>(p);
  Cover<Index> by_d = tile.d.first;
  for (Index d = tile.d.windows.first; d < tile.d.windows.last; ++d) {
    const bool has_d = tap_of(along_d, by_d) >= 0;
    const float share_d = own_share(along_d, by_d, at.d);
    Cover<Index> by_h = tile.h.first;
    for (Index h = tile.h.windows.first; h < tile.h.windows.last; ++h) {
      if (has_d && tap_of(along_h, by_h) >= 0) {
        const float share = share_d * own_share(along_h, by_h, at.h);
        Pack<T, V> cotangents[N];
        MLX_POOLING_UNROLL
        for (int j = 0; j < N; ++j) {
          if (may_reach<TW>(j)) {
            const Index column = nearest_in<Index>(tile.w.windows, w + j);
            cotangents[j] = load<V>(from + output_at(p, tile, d, h, column));
          }
        }
        MLX_POOLING_UNROLL
        for (int j = 0; j < N; ++j) {
          if (may_reach<TW>(j)) {
            MLX_POOLING_UNROLL
            for (int i = 0; i < V; ++i) {
              sums[j][i] += A(cotangents[j].v[i]) * share;
            }
          }
        }
      }
      by_h = in_next_window(along_h, by_h);
    }
    by_d = in_next_window(along_d, by_d);
  }
}

// Adds a column's sums to the inputs that its windows have along W.
template <int TW, typename A, typename Index, int V>
void add_to_inputs(
    thread A (*total)[V],
    const thread A* sums,
    float share,
    TileTaps<Index, TW> taps) {
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (taps.of[t] >= 0) {
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        total[t][i] += sums[i] * share;
      }
    }
  }
}

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
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);
  const device T* from = dy + tile.first;

  A total[TW][V] = {};
  if (taps_to_tile > 0) {
    A sums[kMostColumns][V] = {};
    const Index first = first_known_column(p, at);
    sum_columns<kMostColumns, TW>(sums, from, p, at, tile, first);
    MLX_POOLING_UNROLL
    for (int j = 0; j < kMostColumns; ++j) {
      if (may_reach<TW>(j) && contains<Index>(tile.w.windows, first + j)) {
        const float share = 1.0f / own_divisor(along_w, first + j);
        add_to_inputs(total, sums[j], share, known_taps<Index, TW>(along_w, j));
      }
    }
  } else {
    Cover<Index> by_w = tile.w.first;
    for (Index w = tile.w.windows.first; w < tile.w.windows.last; ++w) {
      A sums[1][V] = {};
      sum_columns<1, TW>(sums, from, p, at, tile, w);
      const float share = own_share(along_w, by_w, at.first);
      add_to_inputs(
          total, sums[0], share, taps_of_tile<Index, TW>(along_w, by_w));
      by_w = in_next_window(along_w, by_w);
    }
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
