#include "best.h"
#include "runs.h"
#include "windows.h"

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
    int COLUMNS>
[[kernel]] void max_pool_flat(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at =
      place<Index, C, TH, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const Range<int> columns = columns_inside<Index>(p, tile.start_w, COLUMNS);

  Best<T, TW * C> best[TH];
  for (int u = 0; u < TH; ++u) {
    best[u] = no_best<T, TW * C>();
  }
  T run[COLUMNS * C] = {};
  for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
    for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
      load_run<V, COLUMNS * C>(
          run, x + input_at<Index>(p, at, tile, kd, r, 0), columns.first * C,
          columns.last * C);
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile<Index>(r, u, kernel_h, stride_h);
        const uint tap_row =
            (uint(kd) * uint(kernel_h) + uint(kh)) * uint(kernel_w);
        for (int kw = 0; kh >= 0 && kw < kernel_w; ++kw) {
          for (int t = 0; t < TW; ++t) {
            const int column = t * stride_w + kw * dilation_w;
            const bool is_tap =
                column >= columns.first && column < columns.last;
            for (int c = 0; is_tap && c < C; ++c) {
              const T v = run[column * C + c];
              take(best[u], t * C + c, v, tap_row + uint(kw));
            }
          }
        }
      }
    }
  }

  const int windows = neighbours<Index>(at.first, p.out[2], TW);
  for (int u = 0; u < TH && at.h + u < Index(p.out[1]); ++u) {
    const Index to = own_element(at, u, 0, p.out[2], p.channels);
    store_run<V, TW * C>(y + to, best[u].value, windows * C);
    if (with_offsets) {
      Offset taps[TW * C];
      for (int i = 0; i < TW * C; ++i) {
        taps[i] = Offset(best[u].tap[i]);
      }
      store_run<V, TW * C>(offsets + to, taps, windows * C);
    }
  }
}
