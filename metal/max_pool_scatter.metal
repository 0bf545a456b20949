#include "covers.h"

// Adds up what the tile's inputs won of a window: they are taps `row` and so
// many columns behind it.
template <
    int TW,
    typename A,
    typename T,
    typename Offset,
    typename Index,
    int V>
void add_won(
    thread A (*total)[V],
    Pack<Offset, V> winner,
    Pack<T, V> cotangent,
    uint row,
    TileTaps<Index, TW> columns) {
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (columns.of[t] >= 0) {
      const uint own = row + uint(columns.of[t]);
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        if (uint(winner.v[i]) == own) {
          total[t][i] += A(cotangent.v[i]);
        }
      }
    }
  }
}

// The same of all windows of a row, at known taps.
template <
    int TW,
    typename A,
    typename T,
    typename Offset,
    typename Index,
    int V>
void add_known_row(
    thread A (*total)[V],
    const device Offset* winners,
    const device T* from,
    constant PoolParams& p,
    CoverTile<Index> tile,
    Index d,
    Index h,
    uint row) {
  const Axis<Index> along_w = axis_w<Index>(p);
  const uint no_row = uint(axis_d<Index>(p).taps) *
      uint(axis_h<Index>(p).taps) * uint(along_w.taps);
  Pack<Offset, V> winner[kMostColumns];
  Pack<T, V> cotangent[kMostColumns];
  MLX_POOLING_UNROLL
  for (int j = 0; j < kMostColumns; ++j) {
    if (may_reach<TW>(j)) {
      const Index w = nearest_window(tile, tile.first_column + j);
      const Index at_window = output_at(p, tile, d, h, w);
      winner[j] = load<V>(winners + at_window);
      cotangent[j] = load<V>(from + at_window);
    }
  }
  MLX_POOLING_UNROLL
  for (int j = 0; j < kMostColumns; ++j) {
    if (may_reach<TW>(j)) {
      const bool has = has_window(tile, tile.first_column + j);
      add_won(
          total, winner[j], cotangent[j], has ? row : no_row,
          known_taps<Index, TW>(along_w, j));
    }
  }
}

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
      const uint row =
          (uint(kd) * uint(along_h.taps) + uint(kh)) * uint(along_w.taps);
      if (cover_tap >= 0) {
        add_known_row<TW>(total, winners, from, p, tile, d, h, row);
        continue;
      }
      Cover<Index> by_w = tile.w.first;
      for (Index w = tile.w.windows.first; w < tile.w.windows.last; ++w) {
        const Index at_window = output_at(p, tile, d, h, w);
        add_won(
            total, load<V>(winners + at_window), load<V>(from + at_window), row,
            taps_of_tile<Index, TW>(along_w, by_w));
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
