#include "covers.h"

// Adds up what the tile's inputs won of a window, if it has them: they are taps
// `row` and so many columns behind it.
template <
    int TW,
    typename A,
    typename T,
    typename Offset,
    typename Index,
    int V>
void add_won(
    thread A (*total)[V],
    Pack<Offset, V> winners,
    Pack<T, V> cotangents,
    uint row,
    TileTaps<Index, TW> columns,
    bool has_inputs) {
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (columns.of[t] >= 0) {
      const uint tap = row + uint(columns.of[t]);
      const uint own = has_inputs ? tap : ~0u; // the number of no tap
      MLX_POOLING_UNROLL
      for (int i = 0; i < V; ++i) {
        if (uint(winners.v[i]) == own) {
          total[t][i] += A(cotangents.v[i]);
        }
      }
    }
  }
}

// The same of all windows of a row, from column `first` on, at known taps.
template <
    int TW,
    typename A,
    typename T,
    typename Offset,
    typename Index,
    int V>
void add_known_row(
    thread A (*total)[V],
    const device Offset* offsets,
    const device T* from,
    constant PoolParams& p,
    CoverTile<Index> tile,
    Index d,
    Index h,
    Index first,
    uint row) {
  Pack<Offset, V> winners[kMostColumns];
  Pack<T, V> cotangents[kMostColumns];
  MLX_POOLING_UNROLL
  for (int j = 0; j < kMostColumns; ++j) {
    if (may_reach<TW>(j)) {
      const Index w = nearest_in<Index>(tile.w.windows, first + j);
      const Index at_window = output_at(p, tile, d, h, w);
      winners[j] = load<V>(offsets + at_window);
      cotangents[j] = load<V>(from + at_window);
    }
  }
  MLX_POOLING_UNROLL
  for (int j = 0; j < kMostColumns; ++j) {
    if (may_reach<TW>(j)) {
      add_won(
          total, winners[j], cotangents[j], row,
          known_taps<Index, TW>(axis_w<Index>(p), j),
          contains<Index>(tile.w.windows, first + j));
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
      if (taps_to_tile > 0) {
        const Index first = first_known_column(p, at);
        add_known_row<TW>(total, winners, from, p, tile, d, h, first, row);
        continue;
      }
      Cover<Index> by_w = tile.w.first;
      for (Index w = tile.w.windows.first; w < tile.w.windows.last; ++w) {
        const Index at_window = output_at(p, tile, d, h, w);
        add_won(
            total, load<V>(winners + at_window), load<V>(from + at_window), row,
            taps_of_tile<Index, TW>(along_w, by_w), true);
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
