#include "divisor.h"
#include "lanes.h"

// avg_pool of few outputs: L lanes share the taps of one, for V channels. They
// read x or, of several launches the last, the sums of each slice.
template <typename From, typename To, typename Index, int V, int L>
[[kernel]] void avg_pool_lanes(
    const device From* x [[buffer(0)]],
    device To* y [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]]) {
  using A = typename Accumulator<From>::type;
  const Share<Index> own = own_share<Index, V, L>(p, thread_at, lane);
  A total[V] = {};
  if (from_slices) {
    const Index slices = own.is_idle ? Index(0) : Index(p.slices);
    for (Index slice = own.number; slice < slices; slice += L) {
      add_column<V>(total, x + slice_element(p, own, slice));
    }
  } else {
    const Walk<Index> walk = own_walk<Index, L>(p, own);
    Tap<Index> tap = tap_number<Index>(walk.taps.first, walk.count);
    for (Index n = walk.taps.first; n < walk.taps.last; n += L) {
      add_column<V>(total, x + tap_element(p, own, walk.window, tap));
      tap = advanced(tap, walk.step, walk.count);
    }
  }

  for (int mask = kLanes / L; mask < kLanes; mask *= 2) {
    for (int i = 0; i < V; ++i) {
      total[i] += shuffled(total[i], ushort(mask));
    }
  }
  if (stores(own)) {
    const A divisor =
        window_divisor<A, Index>(p, own.at.d, own.at.h, own.at.first);
    for (int i = 0; i < V; ++i) {
      total[i] /= divisor;
    }
    store<V>(y + slice_element(p, own, own.slice), rounded<To, V>(total));
  }
}
