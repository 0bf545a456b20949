#include "shares.h"

// A pass of avg_pool_grad along W: a thread computes TW neighbours for V
// channels. The first pass divides.
template <typename From, typename To, typename Index, int V, int TW>
[[kernel]] void avg_grad_sweep(
    const device From* dy [[buffer(0)]],
    device To* dx [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<To>::type;
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const CoverSweep<Index> sweep = cover_sweep<Index, TW>(p, at);
  const device From* from = dy + sweep.first;

  A total[TW][V] = {};
  Cover<Index> by_w = sweep.w.first;
  for (Index w = sweep.w.windows.first; w < sweep.w.windows.last; ++w) {
    const float share = own_share(along_w, by_w, at.first);
    const Pack<From, V> cotangent = load<V>(from + swept_window(p, sweep, w));
    Cover<Index> by_input = by_w;
    MLX_POOLING_UNROLL
    for (int t = 0; t < TW; ++t) {
      if (tap_of(along_w, by_input) >= 0) {
        MLX_POOLING_UNROLL
        for (int i = 0; i < V; ++i) {
          total[t][i] += A(cotangent.v[i]) * share;
        }
      }
      by_input = of_next_input(along_w, by_input);
    }
    by_w = in_next_window(along_w, by_w);
  }

  const float divisor = common_divisor(p) *
      own_divisor(axis_d<Index>(p), at.d) * own_divisor(axis_h<Index>(p), at.h);
  device To* own = dx + own_element(p.x, at);
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    if (has_column(p, at, t)) {
      store<V>(
          own + neighbour<Index>(p.x, 0, t),
          quotients<To, V>(total[t], divisor));
    }
  }
}
