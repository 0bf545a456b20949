#include "runs.h"
#include "shares.h"

// avg_pool_grad of few channels: a thread computes TW neighbouring inputs for
// all C channels, as max_pool_scatter_flat does; windows in one column are
// added up first, as avg_pool_grad does.
template <typename T, typename Index, int R, int V, int C, int TW, int WINDOWS>
[[kernel]] void avg_pool_grad_flat(
    const device T* dy [[buffer(0)]],
    device T* dx [[buffer(1)]],
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
  const device T* from = dy + tile.first;

  A columns[WINDOWS * C] = {};
  T cotangents[WINDOWS * C] = {}; // 0 where there is no window
  Cover<Index> by_d = tile.d.first;
  for (Index d = tile.d.windows.first; d < tile.d.windows.last; ++d) {
    const bool has_d = tap_of(along_d, by_d) >= 0;
    const float share_d = own_share(along_d, by_d, at.d);
    Cover<Index> by_h = tile.h.first;
    for (Index h = tile.h.windows.first; h < tile.h.windows.last; ++h) {
      if (has_d && tap_of(along_h, by_h) >= 0) {
        const float share = share_d * own_share(along_h, by_h, at.h);
        load_run<R, WINDOWS * C>(
            cotangents, from + output_at(p, tile, d, h, first), 0, windows * C);
        MLX_POOLING_UNROLL
        for (int i = 0; i < WINDOWS * C; ++i) {
          columns[i] += A(cotangents[i]) * share;
        }
      }
      by_h = in_next_window(along_h, by_h);
    }
    by_d = in_next_window(along_d, by_d);
  }

  A total[TW * C] = {};
  Cover<Index> by_w = tile.w.first;
  MLX_POOLING_UNROLL
  for (int w = 0; w < WINDOWS; ++w) {
    const float share_w = own_share(along_w, by_w, at.first);
    Cover<Index> by_input = by_w;
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const bool covered = tap_of(along_w, by_input) >= 0;
      MLX_POOLING_UNROLL
      for (int c = 0; c < C; ++c) {
        total[t * C + c] += covered ? columns[w * C + c] * share_w : A(0);
      }
      by_input = of_next_input(along_w, by_input);
    }
    by_w = in_next_window(along_w, by_w);
  }

  T sums[TW * C];
  MLX_POOLING_UNROLL
  for (int i = 0; i < TW * C; ++i) {
    sums[i] = quotient<T>(total[i], common_divisor(p));
  }
  store_run<V, TW * C>(
      dx + own_element(p.x, at), sums, own_columns<TW>(p, at) * C);
}
