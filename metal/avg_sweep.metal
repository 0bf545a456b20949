#include "average.h"
#include "sweep.h"

// From the seam on backwards.
template <int V, typename T, typename A, typename Index>
void add_before(
    constant PoolParams& p,
    thread A* total,
    const device T* x,
    Sweep<Index> sweep,
    Range<Index> columns) {
  for (Index j = columns.last - 1; j >= columns.first; --j) {
    add_column<V>(p, total, x + swept_element(p, sweep, j));
  }
}

// A pass of avg_pool: a thread computes TW neighbouring outputs for V channels.
// All but the last leave sums.
template <typename From, typename To, typename Index, int V, int TW>
[[kernel]] void avg_sweep(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Sum<To>::type;
  const int N = TW * V > kKeptElements ? kKeptElements / V : TW;
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const Sweep<Index> sweep = window_sweep<Index, TW>(p, at);
  const device From* from = x + sweep.first;
  device To* own = y + own_element(p.y, at);
  const float divisor_of_row =
      own_divisor(axis_d<Index>(p), at.d) * own_divisor(axis_h<Index>(p), at.h);

  A before[N][V];
  A after[V] = {};
  for (int first = 0; first < TW && has_column(p, at, first); first += N) {
    A total[V] = {};
    add_before<V>(
        p, total, from, sweep, columns_before<Index, TW>(sweep, first + N, TW));
    MLX_POOLING_UNROLL
    for (int i = N - 1; i >= 0; --i) {
      add_before<V>(
          p, total, from, sweep,
          columns_before<Index, TW>(sweep, first + i, first + i + 1));
      MLX_POOLING_UNROLL
      for (int k = 0; k < V; ++k) {
        before[i][k] = total[k];
      }
    }
    MLX_POOLING_UNROLL
    for (int i = 0; i < N; ++i) {
      const int t = first + i;
      if (!has_column(p, at, t)) {
        continue;
      }
      const Range<Index> columns = columns_after<Index, TW>(sweep, t);
      for (Index j = columns.first; j < columns.last; ++j) {
        add_column<V>(p, after, from + swept_element(p, sweep, j));
      }
      MLX_POOLING_UNROLL
      for (int k = 0; k < V; ++k) {
        before[i][k] += after[k];
      }
      const float counted =
          divisor_of_row * own_divisor(axis_w<Index>(p), at.first + t);
      store<V>(
          own + neighbour<Index>(p.y, 0, t),
          averages<To, V>(p, before[i], window_divisor(p, counted)));
    }
  }
}
