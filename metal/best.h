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

// The largest number, of no tap.
template <typename Tap>
bool is_none(Tap tap) {
  return tap == Tap(~Tap(0));
}

// Of taps that come one after the other: the first of equal ones stays, the
// last NaN takes over.
template <typename T>
bool takes_over(T v, T best) {
  return beats(v, best) || is_nan(v);
}

// How the taps that a thread compares follow each other.
enum Order { kForward, kBackward, kAnyOrder };

// Whether tap `tap` of value v takes over from `best`. `best_tap` starts as the
// largest number, so that a window of -inf gets its first valid tap.
template <Order order, typename T, typename Tap>
bool wins(T v, Tap tap, T best, Tap best_tap) {
  if (!with_offsets) {
    return takes_over(v, best);
  }
  if (order == kForward) {
    return takes_over(v, best) || is_none(best_tap);
  }
  if (order == kBackward) {
    return !(beats(best, v) || is_nan(best));
  }
  return beats(v, best) || (v == best && tap < best_tap) ||
      (is_nan(v) && (!is_nan(best) || tap > best_tap));
}

// Taps in as few bits as their offsets: 16 take half a register.
template <typename Offset>
struct TapNumber {
  using type = ushort;
};
template <>
struct TapNumber<uint> {
  using type = uint;
};

template <typename T, int V, typename Tap = uint>
struct Best {
  T value[V];
  Tap tap[V];
};

template <typename T, int V, typename Tap = uint>
Best<T, V, Tap> no_best() {
  Best<T, V, Tap> best;
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    best.value[i] = least<T>();
    best.tap[i] = Tap(~Tap(0));
  }
  return best;
}

// Lets a tap behind all others in, if it is better. Where none is better than
// `least`, none is taken.
template <typename T, int V, typename Tap>
void take_next(thread Best<T, V, Tap>& best, int i, T value, Tap tap) {
  if (takes_over(value, best.value[i])) {
    best.value[i] = value;
    best.tap[i] = tap;
  }
}

template <Order order, typename T, int V, typename Tap>
void take(thread Best<T, V, Tap>& best, int i, T value, Tap tap) {
  if (wins<order>(value, tap, best.value[i], best.tap[i])) {
    best.value[i] = value;
    best.tap[i] = tap;
  }
}

// Lets a column into `best`. Where another pass left x, `taps` holds the tap
// of each element; it counts from first_tap.
template <Order order, int V, typename T, typename Offset, typename Index>
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
    take<order>(best, i, v.v[i], has_none ? ~0u : first_tap + uint(own.v[i]));
  }
}
