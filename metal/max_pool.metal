#include "windows.h"

// What every other value beats.
template <typename T>
T least() {
  return minimum ? numeric_limits<T>::max() : numeric_limits<T>::min();
}
template <>
inline float least<float>() {
  return minimum ? INFINITY : -INFINITY;
}
template <>
inline half least<half>() {
  return half(least<float>());
}
template <>
inline bfloat least<bfloat>() {
  return bfloat(least<float>());
}

template <typename T>
bool beats(T v, T best) {
  return minimum ? v < best : v > best;
}

// Whether tap `tap` of value v takes over from `best`: one that beats it, the
// first of equal ones, or the last NaN. `best_tap` starts as the largest
// number, so that a window of -inf gets its first valid tap.
template <typename T>
bool wins(T v, uint tap, T best, uint best_tap) {
  if (!with_offsets) {
    return beats(v, best) || is_nan(v);
  }
  return beats(v, best) || (v == best && tap < best_tap) ||
      (is_nan(v) && (!is_nan(best) || tap > best_tap));
}

template <typename T, int V>
struct Best {
  T value[V];
  uint tap[V];
};

template <typename T, int V>
Best<T, V> no_best() {
  Best<T, V> best;
  for (int i = 0; i < V; ++i) {
    best.value[i] = least<T>();
    best.tap[i] = ~0u;
  }
  return best;
}

// A thread computes TW neighbouring outputs along W for V channels. It reduces
// each input column over the windows' rows once, then takes the column into
// every output that has it, so overlapping windows share loads.
template <typename T, typename Offset, typename Index, int V, int TW>
[[kernel]] void max_pool(
    const device T* x [[buffer(0)]],
    device T* y [[buffer(1)]],
    device Offset* offsets [[buffer(2), function_constant(with_offsets)]],
    constant PoolParams& p [[buffer(3)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at =
      place<Index, V, TW>(thread_at, p.first_row, p.out[0], p.out[1]);
  const WindowTile<Index> tile = window_tile<Index, TW>(p, at);

  Best<T, V> best[TW];
  for (int t = 0; t < TW; ++t) {
    best[t] = no_best<T, V>();
  }
  for (Index j = tile.columns.first; j < tile.columns.last; ++j) {
    Best<T, V> column = no_best<T, V>();
    for (Index kd = tile.taps_d.first; kd < tile.taps_d.last; ++kd) {
      for (Index kh = tile.taps_h.first; kh < tile.taps_h.last; ++kh) {
        const uint tap_row = uint(kd) * uint(kernel_h) + uint(kh);
        const Pack<T, V> v = load<V>(x + input_at(p, at, tile, kd, kh, j));
        for (int i = 0; i < V; ++i) {
          if (wins(v.v[i], tap_row, column.value[i], column.tap[i])) {
            column.value[i] = v.v[i];
            column.tap[i] = tap_row;
          }
        }
      }
    }
    for (int t = 0; t < TW; ++t) {
      const Index kw = j - t * stride_w;
      if (kw < 0 || kw >= kernel_w) {
        continue;
      }
      for (int i = 0; i < V; ++i) {
        const uint tap = column.tap[i] * uint(kernel_w) + uint(kw);
        if (wins(column.value[i], tap, best[t].value[i], best[t].tap[i])) {
          best[t].value[i] = column.value[i];
          best[t].tap[i] = tap;
        }
      }
    }
  }

  for (int t = 0; t < TW && at.first + t < Index(p.out[2]); ++t) {
    const Index to = own_element(at, t, p.out[2], p.channels);
    Pack<T, V> values;
    Pack<Offset, V> taps;
    for (int i = 0; i < V; ++i) {
      values.v[i] = best[t].value[i];
      taps.v[i] = Offset(best[t].tap[i]);
    }
    store<V>(y + to, values);
    if (with_offsets) {
      store<V>(offsets + to, taps);
    }
  }
}
