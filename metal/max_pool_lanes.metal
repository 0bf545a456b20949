#include "best.h"
#include "lanes.h"

// Takes the next N taps of a lane.
template <int N, typename T, int V, typename Index>
void take_taps(
    constant PoolParams& p,
    thread Best<T, V>& best,
    const device T* from,
    Walk<Index> walk,
    thread Tap<Index>& tap) {
  const NextTaps<T, V, N> next = next_taps<V, N>(p, from, walk, tap);
  MLX_POOLING_UNROLL
  for (int a = 0; a < N; ++a) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      take<kForward>(best, i, next.v[a].v[i], next.number[a]);
    }
  }
}

// max_pool of few outputs: L lanes share the taps of one, for V channels. They
// read x or, of several launches the last, the best of each slice.
template <typename T, typename Offset, typename Index, int V, int L>
[[kernel]] void max_pool_lanes(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    const device Offset* taps [[buffer(3), function_constant(with_taps)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  const Share<Index> own = lane_share<Index, V, L>(p, thread_at, lane);
  Best<T, V> best = no_best<T, V>();
  if (from_slices) {
    const Index slices = own.is_idle ? Index(0) : Index(p.slices);
    const int64_t first = slice_element(p, own);
    const device T* from = x + first;
    const device Offset* taps_from = nullptr;
    if (with_taps) {
      taps_from = taps + first;
    }
    for (Index slice = own.number; slice < slices; slice += L) {
      take_column<kForward>(best, from, taps_from, other_slice(p, slice), 0u);
    }
  } else {
    const Walk<Index> walk = own_walk<Index, L>(p, own);
    const device T* from = x + walk.window.first;
    Tap<Index> tap = tap_number<Index>(walk.taps.first, walk.count);
    Index n = walk.taps.first;
    for (; has_taps<Index, L>(walk, n, kLoadsAhead); n += kLoadsAhead * L) {
      take_taps<kLoadsAhead>(p, best, from, walk, tap);
    }
    for (; has_taps<Index, L>(walk, n, 1); n += L) {
      take_taps<1>(p, best, from, walk, tap);
    }
  }

  MLX_POOLING_UNROLL
  for (int mask = kLanes / L; mask < kLanes; mask *= 2) {
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      const T value = shuffled(best.value[i], ushort(mask));
      take<kAnyOrder>(best, i, value, shuffled(best.tap[i], ushort(mask)));
    }
  }
  if (stores(own)) {
    const int64_t to = slice_element(p, own);
    Pack<T, V> values;
    Pack<Offset, V> winners;
    MLX_POOLING_UNROLL
    for (int i = 0; i < V; ++i) {
      values.v[i] = best.value[i];
      winners.v[i] = Offset(best.tap[i]);
    }
    store<V>(y + to, values);
    if (with_offsets) {
      store<V>(offsets + to, winners);
    }
  }
}
