#include "covers.h"

// A pass of max_pool_scatter along W: windows of one row that were won from the
// same column were all won by the same one of its elements. So their cotangents
// can be added up before the pass over rows, which `row_taps` is for: the tap
// along the axes that are left. A thread computes TW neighbours for V channels.
template <
    typename From,
    typename To,
    typename Offset,
    typename Index,
    int V,
    int TW>
[[kernel]] void max_scatter_sweep(
    const device Offset* offsets [[buffer(0)]],
    const device From* dy [[buffer(1)]],
    device To* dx [[buffer(2)]],
    device Offset* row_taps [[buffer(3), function_constant(with_taps)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  using A = typename Accumulator<To>::type;
  const Axis<Index> along_w = axis_w<Index>(p);
  const Place<Index> at = place<Index, V, 1, TW>(thread_at, p);
  const CoverSweep<Index> sweep = cover_sweep<Index, TW>(p, at);
  const device Offset* winners = offsets + sweep.first;
  const device From* from = dy + sweep.first;

  A total[TW][V] = {};
  uint row_tap[TW][V];
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      row_tap[t][i] = ~0u;
    }
  }
  Cover<Index> by_w = sweep.w.first;
  for (Index w = sweep.w.windows.first; w < sweep.w.windows.last; ++w) {
    const Index window = swept_window(p, sweep, w);
    const Pack<Offset, V> winner = load<V>(winners + window);
    const Pack<From, V> cotangent = load<V>(from + window);
    // From the window's start to the first neighbour.
    const Index distance = by_w.tap * dilation_w + by_w.phase;
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      const uint tap = uint(winner.v[i]);
      const uint row = tap / uint(kernel_w);
      const uint column = tap - row * uint(kernel_w);
      const Index won = is_none(winner.v[i])
          ? Index(-1)
          : Index(column) * dilation_w - distance;
      MLX_POOLING_UNROLL
      for (int t = 0; t < TW; ++t) {
        const bool is_own = won == t;
        total[t][i] += is_own ? A(cotangent.v[i]) : A(0);
        row_tap[t][i] = is_own ? row : row_tap[t][i];
      }
    }
    by_w = in_next_window(along_w, by_w);
  }

  const int64_t own = own_element(p.x, at);
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    const int64_t to = own + neighbour<Index>(p.x, 0, t);
    if (has_column(p, at, t)) {
      store<V>(dx + to, rounded<To, V>(total[t]));
    }
    if (with_taps && has_column(p, at, t)) {
      store<V>(row_taps + to, rounded<Offset, V>(row_tap[t]));
    }
  }
}
