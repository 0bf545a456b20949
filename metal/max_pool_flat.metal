#include "best.h"
#include "runs.h"
#include "windows.h"

// Lets the taps of one row of TW windows into `best`.
template <int C, int TW, int K, int S, int D, typename T, typename Number>
void take_run(
    thread Best<T, TW * C, Number>& best,
    const thread T* run,
    Range<int> columns,
    uint tap_row) {
  MLX_POOLING_UNROLL
  for (int kw = 0; kw < K; ++kw) {
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      const int column = t * S + kw * D;
      const bool is_tap = contains(columns, column);
      MLX_POOLING_UNROLL
      for (int c = 0; c < C; ++c) {
        if (is_tap) {
          take<kForward>(
              best, t * C + c, run[column * C + c], Number(tap_row + uint(kw)));
        }
      }
    }
  }
}

// max_pool of few channels: a thread computes TH x TW neighbouring outputs for
// all C channels, from runs of the columns that the windows of a row reach.
template <
    typename T,
    typename Offset,
    typename Index,
    int V,
    int C,
    int TH,
    int TW,
    int K,
    int S,
    int D>
[[kernel]] void max_pool_flat(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using Number = typename TapNumber<Offset>::type;
  const Axis<Index> along_h = axis_h<Index>(p);
  const Place<Index> at = place<Index, C, TH, TW>(thread_at, p);
  const int count = (TW - 1) * S + (K - 1) * D + 1;
  const int N = count * C;
  const RunTile<Index> tile = run_tile<Index, TH>(p, at, count);
  const Range<Index> taps_d = tile.windows.taps_d;
  const Range<Index> rows = tile.windows.rows;
  const Range<int> columns = tile.columns;
  const device T* from = x + tile.windows.first;

  Best<T, TW * C, Number> best[TH];
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    best[u] = no_best<T, TW * C, Number>();
  }
  T run[N] = {};
  for (Index kd = taps_d.first; kd < taps_d.last; ++kd) {
    for (Index r = rows.first; r < rows.last; ++r) {
      load_run<V, N>(
          run, from + run_at(p, tile, kd, r), columns.first * C,
          columns.last * C);
      MLX_POOLING_UNROLL
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile(along_h, r, u);
        const uint tap_row =
            (uint(kd) * uint(along_h.taps) + uint(kh)) * uint(K);
        if (kh >= 0) {
          take_run<C, TW, K, S, D>(best[u], run, columns, tap_row);
        }
      }
    }
  }

  const int windows = own_columns<TW>(p, at);
  const int64_t own = own_element(p.y, at);
  MLX_POOLING_UNROLL
  for (int u = 0; u < TH; ++u) {
    if (has_row(p, at, u)) {
      const int64_t to = own + neighbour<Index>(p.y, u, 0);
      store_run<V, TW * C>(y + to, best[u].value, windows * C);
      if (with_offsets) {
        Offset taps[TW * C];
        MLX_POOLING_UNROLL
        for (int i = 0; i < TW * C; ++i) {
          taps[i] = Offset(best[u].tap[i]);
        }
        store_run<V, TW * C>(offsets + to, taps, windows * C);
      }
    }
  }
}
