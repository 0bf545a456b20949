#include "average.h"
#include "lanes.h"

// Adds the next N taps of a lane.
template <int N, int V, typename From, typename A, typename Index>
void add_taps(
    constant PoolParams& p,
    thread A* total,
    const device From* from,
    Walk<Index> walk,
    thread Tap<Index>& tap) {
  const NextTaps<From, V, N> next = next_taps<V, N>(p, from, walk, tap);
  MLX_POOLING_UNROLL
  for (int a = 0; a < N; ++a) {
    add_pack<V>(p, total, next.v[a]);
  }
}

// avg_pool of few outputs: L lanes share the taps of one, for V channels. They
// read x or, of several launches the last, the sums of each slice.
template <typename From, typename To, typename Index, int V, int L>
[[kernel]] void avg_pool_lanes(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  using A = typename Sum<To>::type;
  const Share<Index> own = lane_share<Index, V, L>(p, thread_at, lane);
  A total[V] = {};
  if (from_slices) {
    const Index slices = own.is_idle ? Index(0) : Index(p.slices);
    const device From* from = x + slice_element(p, own);
    for (Index slice = own.number; slice < slices; slice += L) {
      add_column<V>(p, total, from + other_slice(p, slice));
    }
  } else {
    const Walk<Index> walk = own_walk<Index, L>(p, own);
    const device From* from = x + walk.window.first;
    Tap<Index> tap = tap_number<Index>(walk.taps.first, walk.count);
    Index n = walk.taps.first;
    for (; has_taps<Index, L>(walk, n, kLoadsAhead); n += kLoadsAhead * L) {
      add_taps<kLoadsAhead, V>(p, total, from, walk, tap);
    }
    for (; has_taps<Index, L>(walk, n, 1); n += L) {
      add_taps<1, V>(p, total, from, walk, tap);
    }
  }

  MLX_POOLING_UNROLL
  for (int mask = kLanes / L; mask < kLanes; mask *= 2) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      total[i] += shuffled(total[i], ushort(mask));
    }
  }
  if (stores(own)) {
    const float counted = own_divisor(axis_d<Index>(p), own.at.d) *
        own_divisor(axis_h<Index>(p), own.at.h) *
        own_divisor(axis_w<Index>(p), own.at.first);
    store<V>(
        y + slice_element(p, own),
        averages<To, V>(p, total, window_divisor(p, counted)));
  }
}
