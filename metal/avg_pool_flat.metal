#include "average.h"
#include "runs.h"
#include "windows.h"

// Adds up the taps of one row of TW windows.
template <int C, int TW, int K, int S, int D, typename T, typename A>
void add_run(constant PoolParams& p, thread A* row, const thread T* run) {
  MLX_POOLING_UNROLL
  for (int kw = 0; kw < K; ++kw) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < TW * C; ++i) {
      row[i] += term<A>(p, run[(i / C * S + kw * D) * C + i % C]);
    }
  }
}

// avg_pool of few channels: a thread computes TH x TW neighbouring outputs for
// all C channels, as max_pool_flat does.
template <
    typename From,
    typename To,
    typename Index,
    int V,
    int C,
    int TH,
    int TW,
    int K,
    int S,
    int D>
[[kernel]] void avg_pool_flat(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Sum<To>::type;
  const Axis<Index> along_h = axis_h<Index>(p);
  const Place<Index> at = place<Index, C, TH, TW>(thread_at, p);
  const int count = (TW - 1) * S + (K - 1) * D + 1;
  const int N = count * C;
  const RunTile<Index> tile = run_tile<Index, TH>(p, at, count);
  const Range<Index> taps_d = tile.windows.taps_d;
  const Range<Index> rows = tile.windows.rows;
  const Range<int> columns = tile.columns;
  const device From* from = x + tile.windows.first;

  A total[TH][TW * C] = {};
  From run[N];
  MLX_POOLING_UNROLL
  for (int i = 0; i < N; ++i) {
    run[i] = blank<From>(p); // where there is no input
  }
  for (Index kd = taps_d.first; kd < taps_d.last; ++kd) {
    for (Index r = rows.first; r < rows.last; ++r) {
      load_run<V, N>(
          run, from + run_at(p, tile, kd, r), columns.first * C,
          columns.last * C);
      A row[TW * C] = {};
      add_run<C, TW, K, S, D>(p, row, run);
      MLX_POOLING_UNROLL
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile(along_h, r, u);
        MLX_POOLING_UNROLL
        for (int i = 0; i < TW * C; ++i) {
          total[u][i] += kh >= 0 ? row[i] : A(0);
        }
      }
    }
  }

  const int windows = own_columns<TW>(p, at);
  const float divisor_d = own_divisor(axis_d<Index>(p), at.d);
  device To* own = y + own_element(p.y, at);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    if (has_row(p, at, u)) {
      const float divisor_h = own_divisor(along_h, at.h + u);
      To means[TW * C];
      MLX_POOLING_UNROLL
      for (int t = 0; t < TW; ++t) {
        const float divisor_w = own_divisor(axis_w<Index>(p), at.first + t);
        const float divisor =
            window_divisor(p, divisor_d * divisor_h * divisor_w);
        MLX_POOLING_UNROLL
        for (int i = t * C; i < (t + 1) * C; ++i) {
          means[i] = average<To>(p, total[u][i], divisor);
        }
      }
      store_run<V, TW * C>(
          own + neighbour<Index>(p.y, u, 0), means, windows * C);
    }
  }
}
