#include "best.h"
#include "sweep.h"

template <Order order, int V, typename T, typename Offset, typename Index>
void take_swept(
    thread Best<T, V>& best,
    const device T* x,
    const device Offset* taps,
    constant PoolParams& p,
    Sweep<Index> sweep,
    Index column) {
  const uint column_taps = uint(p.column_taps);
  take_column<order>(
      best, x, taps, swept_element(p, sweep, column),
      uint(column) * column_taps);
}

// From the seam on backwards.
template <int V, typename T, typename Offset, typename Index>
void take_before(
    thread Best<T, V>& best,
    const device T* x,
    const device Offset* taps,
    constant PoolParams& p,
    Sweep<Index> sweep,
    Range<Index> columns) {
  for (Index j = columns.last - 1; j >= columns.first; --j) {
    take_swept<kBackward>(best, x, taps, p, sweep, j);
  }
}

// A pass of max_pool: a thread computes TW neighbouring outputs for V channels.
template <typename T, typename Offset, typename Index, int V, int TW>
[[kernel]] void max_sweep(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    const device Offset* taps [[buffer(3), function_constant(with_taps)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const int N = TW * V > kKeptElements ? kKeptElements / V : TW;
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const Sweep<Index> sweep = window_sweep<Index, TW>(p, at);
  const device T* from = x + sweep.first;
  const device Offset* taps_from = nullptr;
  if (with_taps) {
    taps_from = taps + sweep.first;
  }
  const int64_t own = own_element(p.y, at);

  Best<T, V> before[N];
  Best<T, V> after = no_best<T, V>();
  for (int first = 0; first < TW && has_column(p, at, first); first += N) {
    Best<T, V> best = no_best<T, V>();
    take_before(
        best, from, taps_from, p, sweep,
        columns_before<Index, TW>(sweep, first + N, TW));
    MLX_POOLING_UNROLL
    for (int i = N - 1; i >= 0; --i) {
      take_before(
          best, from, taps_from, p, sweep,
          columns_before<Index, TW>(sweep, first + i, first + i + 1));
      before[i] = best;
    }
    MLX_POOLING_UNROLL
    for (int i = 0; i < N; ++i) {
      const int t = first + i;
      if (!has_column(p, at, t)) {
        continue;
      }
      const Range<Index> columns = columns_after<Index, TW>(sweep, t);
      for (Index j = columns.first; j < columns.last; ++j) {
        take_swept<kForward>(after, from, taps_from, p, sweep, j);
      }
      Best<T, V> window = before[i];
      const uint skipped = uint(t) * uint(stride_w) * uint(p.column_taps);
      Pack<T, V> values;
      Pack<Offset, V> winners;
      MLX_POOLING_UNROLL
      for (int k = 0; k < V; ++k) {
        take<kForward>(window, k, after.value[k], after.tap[k]);
        values.v[k] = window.value[k];
        winners.v[k] =
            Offset(is_none(window.tap[k]) ? ~0u : window.tap[k] - skipped);
      }
      const int64_t to = own + neighbour<Index>(p.y, 0, t);
      store<V>(y + to, values);
      if (with_offsets) {
        store<V>(offsets + to, winners);
      }
    }
  }
}
