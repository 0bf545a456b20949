#include "divisor.h"
#include "sweep.h"

// A pass of avg_pool: a thread computes TW neighbouring outputs for V channels.
// All but the last leave sums.
template <typename From, typename To, typename Index, int V, int TW>
[[kernel]] void avg_sweep(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<From>::type;
  const Place<Index> at =
      place<Index, V, 1, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const Sweep<Index> sweep = window_sweep<Index, TW>(p, at);

  A before[TW][V] = {};
  A total[V] = {};
  for (int t = TW - 2; t >= 0; --t) {
    const Range<Index> columns = columns_before(sweep, t);
    for (Index j = columns.last - 1; j >= columns.first; --j) {
      add_column<V>(total, x + swept_element(p, at, sweep, j));
    }
    for (int i = 0; i < V; ++i) {
      before[t][i] = total[i];
    }
  }

  for (int i = 0; i < V; ++i) {
    total[i] = 0;
  }
  for (int t = 0; t < TW && at.first + t < Index(p.out[2]); ++t) {
    const Range<Index> columns = columns_after<Index, TW>(sweep, t);
    for (Index j = columns.first; j < columns.last; ++j) {
      add_column<V>(total, x + swept_element(p, at, sweep, j));
    }
    const A divisor = window_divisor<A, Index>(p, at.d, at.h, at.first + t);
    for (int i = 0; i < V; ++i) {
      before[t][i] = (before[t][i] + total[i]) / divisor;
    }
    store<V>(
        y + own_element(at, 0, t, p.out[2], p.channels),
        rounded<To, V>(before[t]));
  }
}
