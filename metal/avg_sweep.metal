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
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const Sweep<Index> sweep = window_sweep<Index, TW>(p, at);
  const device From* from = x + sweep.first;

  A before[TW][V] = {};
  A total[V] = {};
  for (int t = TW - 2; t >= 0; --t) {
    const Range<Index> columns = columns_before(sweep, t);
    for (Index j = columns.last - 1; j >= columns.first; --j) {
      add_column<V>(total, from + swept_element(p, sweep, j));
    }
    for (int i = 0; i < V; ++i) {
      before[t][i] = total[i];
    }
  }

  const A divisor_of_row = common_divisor<A>(p) *
      own_divisor<A>(axis_d<Index>(p), at.d) *
      own_divisor<A>(axis_h<Index>(p), at.h);
  device To* own = y + own_element(p.y, at);
  for (int i = 0; i < V; ++i) {
    total[i] = 0;
  }
  for (int t = 0; t < TW && has_column(p, at, t); ++t) {
    const Range<Index> columns = columns_after<Index, TW>(sweep, t);
    for (Index j = columns.first; j < columns.last; ++j) {
      add_column<V>(total, from + swept_element(p, sweep, j));
    }
    const A divisor =
        divisor_of_row * own_divisor<A>(axis_w<Index>(p), at.first + t);
    for (int i = 0; i < V; ++i) {
      before[t][i] = (before[t][i] + total[i]) / divisor;
    }
    store<V>(own + neighbour<Index>(p.y, 0, t), rounded<To, V>(before[t]));
  }
}
