#pragma once

#include "common.h"

// The extreme values of windows and their taps: forward kernels of maxima.

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
template <>
inline bool least<bool>() {
  return minimum;
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
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    best.value[i] = least<T>();
    best.tap[i] = ~0u;
  }
  return best;
}

template <typename T, int V>
void take(thread Best<T, V>& best, int i, T value, uint tap) {
  if (wins(value, tap, best.value[i], best.tap[i])) {
    best.value[i] = value;
    best.tap[i] = tap;
  }
}

// The tap in column kw of a row of so many that is number `tap_row`, ~0u where
// it has none.
inline uint tap_in_row(uint tap_row, uint taps, uint kw) {
  return tap_row == ~0u ? ~0u : tap_row * taps + kw;
}

// Lets a column into `best`. Where another pass left x, `taps` holds the tap
// of each element; it counts from first_tap.
template <int V, typename T, typename Offset, typename Index>
void take_column(
    thread Best<T, V>& best,
    const device T* x,
    const device Offset* taps,
    Index from,
    uint first_tap) {
  const Pack<T, V> v = load<V>(x + from);
  Pack<Offset, V> own = {};
  if (with_taps) {
    own = load<V>(taps + from);
  }
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    const bool has_none = with_taps && own.v[i] == Offset(~Offset(0));
    take(best, i, v.v[i], has_none ? ~0u : first_tap + uint(own.v[i]));
  }
}
