#include "covers.h"
#include "runs.h"

// max_pool_scatter of few channels: a thread computes TW neighbouring inputs
// for all C channels, from runs, read in vectors of R, of the windows of a row
// that may contain them.
template <
    typename T,
    typename Offset,
    typename Index,
    int R,
    int V,
    int C,
    int TW,
    int WINDOWS>
[[kernel]] void max_pool_scatter_flat(
    const device Offset* offsets [[buffer(0)]],
    const device T* dy [[buffer(1)]],
    device T* dx [[buffer(2)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Axis<Index> along_d = axis_d<Index>(p);
  const Axis<Index> along_h = axis_h<Index>(p);
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, C, 1, TW>(thread_at, p);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);
  const Index first = tile.w.windows.first;
  const int windows = neighbours(first, along_w.out, WINDOWS);
  const device Offset* offsets_from = offsets + tile.first;
  const device T* from = dy + tile.first;

  A total[TW * C] = {};
  Offset winners[WINDOWS * C] = {};
  T cotangents[WINDOWS * C] = {}; // 0 where there is no window
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
      const uint tap_row =
          (uint(kd) * uint(along_h.taps) + uint(kh)) * uint(along_w.taps);
      const Index row = output_at(p, tile, d, h, first);
      load_run<R, WINDOWS * C>(winners, offsets_from + row, 0, windows * C);
      load_run<R, WINDOWS * C>(cotangents, from + row, 0, windows * C);
      Cover<Index> by_w = tile.w.first;
      MLX_POOLING_UNROLL
      for (int w = 0; w < WINDOWS; ++w) {
        Cover<Index> by_input = by_w;
        MLX_POOLING_UNROLL
        for (int t = 0; t < TW; ++t) {
          const Index kw = tap_of(along_w, by_input);
          if (kw >= 0) {
            MLX_POOLING_UNROLL
            for (int c = 0; c < C; ++c) {
              const bool won = uint(winners[w * C + c]) == tap_row + uint(kw);
              total[t * C + c] += won ? A(cotangents[w * C + c]) : A(0);
            }
          }
          by_input = of_next_input(along_w, by_input);
        }
        by_w = in_next_window(along_w, by_w);
      }
    }
    by_d = in_next_window(along_d, by_d);
  }

  T sums[TW * C];
  MLX_POOLING_UNROLL
  for (int i = 0; i < TW * C; ++i) {
    sums[i] = T(total[i]);
  }
  store_run<V, TW * C>(
      dx + own_element(p.x, at), sums, own_columns<TW>(p, at) * C);
}
