#include "covers.h"
#include "divisor.h"

// A pass of avg_pool_grad along W: a thread computes TW neighbours for V
// channels. The first pass divides.
template <typename From, typename To, typename Index, int V, int TW>
[[kernel]] void avg_grad_sweep(
    const device From* dy [[buffer(0)]],
    device To* dx [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<To>::type;
  const Place<Index> at =
      place<Index, V, 1, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const Range<Index> windows = windows_over<Index, TW>(p, at);

  A total[TW][V] = {};
  for (Index w = windows.first; w < windows.last; ++w) {
    const A divisor = window_divisor<A, Index>(p, at.d, at.h, w);
    const Pack<From, V> cotangent = load<V>(dy + own_window(p, at, w));
    for (int t = 0; t < TW; ++t) {
      const bool covered = window_tap<Index>(p, at.first + t, w) >= 0;
      for (int i = 0; i < V; ++i) {
        total[t][i] += covered ? A(cotangent.v[i]) / divisor : A(0);
      }
    }
  }

  for (int t = 0; t < TW && at.first + t < Index(p.in[2]); ++t) {
    store<V>(
        dx + own_element(at, 0, t, p.in[2], p.channels),
        rounded<To, V>(total[t]));
  }
}
