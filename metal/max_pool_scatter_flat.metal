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
  const Place<Index> at =
      place<Index, C, 1, TW>(thread_at, p.first_row, p.in[0], p.in[1]);
  const CoverTile<Index> tile = cover_tile<Index, TW>(p, at);
  const Index first = tile.windows_w.first;
  const int windows = neighbours<Index>(first, p.out[2], WINDOWS);

  A total[TW * C] = {};
  Offset winners[WINDOWS * C] = {};
  T cotangents[WINDOWS * C] = {}; // 0 where there is no window
  for (Index d = tile.windows_d.first; d < tile.windows_d.last; ++d) {
    for (Index h = tile.windows_h.first; h < tile.windows_h.last; ++h) {
      Index kd;
      Index kh;
      if (!row_has_taps(p, tile, d, h, kd, kh)) {
        continue;
      }
      const uint tap_row =
          (uint(kd) * uint(kernel_h) + uint(kh)) * uint(kernel_w);
      const Index from = output_at<Index>(p, at, d, h, first);
      load_run<R, WINDOWS * C>(winners, offsets + from, 0, windows * C);
      load_run<R, WINDOWS * C>(cotangents, dy + from, 0, windows * C);
      MLX_POOLING_UNROLL
      for (int w = 0; w < WINDOWS; ++w) {
        MLX_POOLING_UNROLL
        for (int t = 0; t < TW; ++t) {
          const Index kw = column_tap<Index>(p, tile, t, first + w);
          MLX_POOLING_UNROLL
          for (int c = 0; c < C; ++c) {
            const bool won =
                kw >= 0 && uint(winners[w * C + c]) == tap_row + uint(kw);
            total[t * C + c] += won ? A(cotangents[w * C + c]) : A(0);
          }
        }
      }
    }
  }

  T sums[TW * C];
  MLX_POOLING_UNROLL
  for (int i = 0; i < TW * C; ++i) {
    sums[i] = T(total[i]);
  }
  store_run<V, TW * C>(
      dx + own_element(at, 0, 0, p.in[2], p.channels), sums,
      neighbours<Index>(at.first, p.in[2], TW) * C);
}
