#include "divisor.h"
#include "runs.h"
#include "windows.h"

// Adds up the taps of one row of TW windows.
template <int C, int TW, int K, int S, int D, typename T, typename A>
void add_row(thread A* row, const thread T* run) {
  MLX_POOLING_UNROLL
  for (int kw = 0; kw < K; ++kw) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < TW * C; ++i) {
      row[i] += A(run[(i / C * S + kw * D) * C + i % C]);
    }
  }
}

// avg_pool of few channels: a thread computes TH x TW neighbouring outputs for
// all C channels, as max_pool_flat does.
template <
    typename T,
    typename Index,
    int V,
    int C,
    int TH,
    int TW,
    int K,
    int S,
    int D>
[[kernel]] void avg_pool_flat(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Place<Index> at =
      place<Index, C, TH, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const int count = (TW - 1) * S + (K - 1) * D + 1;
  const int N = count * C;
  const Range<int> columns = columns_inside<Index>(p, tile.start_w, count);

  A total[TH][TW * C] = {};
  T run[N] = {}; // 0 where there is no input
  for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
    for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
      load_run<V, N>(
          run, x + input_at<Index>(p, at, tile, kd, r, 0), columns.first * C,
          columns.last * C);
      A row[TW * C] = {};
      add_row<C, TW, K, S, D>(row, run);
      MLX_POOLING_UNROLL
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile<Index>(r, u, kernel_h, stride_h);
        MLX_POOLING_UNROLL
        for (int i = 0; i < TW * C; ++i) {
          total[u][i] += kh >= 0 ? row[i] : A(0);
        }
      }
    }
  }

  const int windows = neighbours<Index>(at.first, p.out[2], TW);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    if (at.h + u < Index(p.out[1])) {
      T means[TW * C];
      MLX_POOLING_UNROLL
      for (int t = 0; t < TW; ++t) {
        const A divisor =
            window_divisor<A, Index>(p, at.d, at.h + u, at.first + t);
        MLX_POOLING_UNROLL
        for (int i = t * C; i < (t + 1) * C; ++i) {
          means[i] = T(total[u][i] / divisor);
        }
      }
      store_run<V, TW * C>(
          y + own_element(at, u, 0, p.out[2], p.channels), means, windows * C);
    }
  }
}
