#include "divisor.h"
#include "runs.h"
#include "windows.h"

// avg_pool of few channels: a thread computes TH x TW neighbouring outputs for
// all C channels, as max_pool_flat does.
template <typename T, typename Index, int V, int C, int TH, int TW, int COLUMNS>
[[kernel]] void avg_pool_flat(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<T>::type;
  const Place<Index> at =
      place<Index, C, TH, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const WindowTile<Index> tile = window_tile<Index, TH, TW>(p, at);
  const Range<int> columns = columns_inside<Index>(p, tile.start_w, COLUMNS);

  A total[TH][TW * C] = {};
  T run[COLUMNS * C] = {}; // 0 where there is no input
  for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
    for (Index r = tile.rows.first; r < tile.rows.last; ++r) {
      load_run<V, COLUMNS * C>(
          run, x + input_at<Index>(p, at, tile, kd, r, 0), columns.first * C,
          columns.last * C);
      A row[TW * C] = {};
      for (int kw = 0; kw < kernel_w; ++kw) {
        for (int t = 0; t < TW; ++t) {
          for (int c = 0; c < C; ++c) {
            const int column = t * stride_w + kw * dilation_w;
            row[t * C + c] += A(run[column * C + c]);
          }
        }
      }
      for (int u = 0; u < TH; ++u) {
        const Index kh = tap_in_tile<Index>(r, u, kernel_h, stride_h);
        for (int i = 0; kh >= 0 && i < TW * C; ++i) {
          total[u][i] += row[i];
        }
      }
    }
  }

  const int windows = neighbours<Index>(at.first, p.out[2], TW);
  for (int u = 0; u < TH && at.h + u < Index(p.out[1]); ++u) {
    T means[TW * C];
    for (int t = 0; t < TW; ++t) {
      const A divisor =
          window_divisor<A, Index>(p, at.d, at.h + u, at.first + t);
      for (int i = t * C; i < (t + 1) * C; ++i) {
        means[i] = T(total[u][i] / divisor);
      }
    }
    store_run<V, TW * C>(
        y + own_element(at, u, 0, p.out[2], p.channels), means, windows * C);
  }
}
