#include "best.h"
#include "sweep.h"

// A pass of max_pool: a thread computes TW neighbouring outputs for V channels.
template <typename T, typename Offset, typename Index, int V, int TW>
[[kernel]] void max_sweep(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    const device Offset* taps [[buffer(3), function_constant(with_taps)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const Sweep<Index> sweep = window_sweep<Index, TW>(p, at);
  const device T* from = x + sweep.first;
  const device Offset* taps_from = with_taps ? taps + sweep.first : taps;
  const uint column_taps = uint(p.column_taps);

  Best<T, V> before[TW];
  Best<T, V> best = no_best<T, V>();
  before[TW - 1] = best;
  for (int t = TW - 2; t >= 0; --t) {
    const Range<Index> columns = columns_before(sweep, t);
    for (Index j = columns.last - 1; j >= columns.first; --j) {
      take_column(
          best, from, taps_from, swept_element(p, sweep, j),
          uint(j) * column_taps);
    }
    before[t] = best;
  }

  const int64_t own = own_element(p.y, at);
  best = no_best<T, V>();
  for (int t = 0; t < TW && has_column(p, at, t); ++t) {
    const Range<Index> columns = columns_after<Index, TW>(sweep, t);
    for (Index j = columns.first; j < columns.last; ++j) {
      take_column(
          best, from, taps_from, swept_element(p, sweep, j),
          uint(j) * column_taps);
    }
    Best<T, V> window = before[t];
    Pack<T, V> values;
    Pack<Offset, V> winners;
    for (int i = 0; i < V; ++i) {
      take(window, i, best.value[i], best.tap[i]);
      values.v[i] = window.value[i];
      const uint skipped = uint(t) * uint(stride_w) * column_taps;
      winners.v[i] =
          Offset(window.tap[i] == ~0u ? ~0u : window.tap[i] - skipped);
    }
    const int64_t to = own + neighbour<Index>(p.y, 0, t);
    store<V>(y + to, values);
    if (with_offsets) {
      store<V>(offsets + to, winners);
    }
  }
}
