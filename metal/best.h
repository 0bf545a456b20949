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

// Of taps that come one after the other: the first of equal ones stays, the
// last NaN takes over.
template <typename T>
bool takes_over(T v, T best) {
  return beats(v, best) || is_nan(v);
}

// Whether a tap lies behind all that came before, or ahead of them.
enum Order { kForward, kBackward, kAnyOrder };

// Whether tap `tap` of value v takes over from `best`. `best_tap` starts as the
// largest number, so that a window of -inf gets its first valid tap. Backward
// that is the last to come, as all have taps or none has.
template <Order order, typename T, typename Number>
bool wins(T v, Number tap, T best, Number best_tap) {
  if (order == kBackward) {
    return !(beats(best, v) || is_nan(best));
  }
  if (!with_offsets) {
    return takes_over(v, best);
  }
  if (order == kForward) {
    return takes_over(v, best) || is_none(best_tap);
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

template <typename T, int V, typename Number = uint>
struct Best {
  T value[V];
  Number tap[V];
};

template <typename T, int V, typename Number = uint>
Best<T, V, Number> no_best() {
  Best<T, V, Number> best;
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    best.value[i] = least<T>();
    best.tap[i] = Number(~Number(0));
  }
  return best;
}

template <typename T, int V, typename Number>
void replace_if(
    bool takes, thread Best<T, V, Number>& best, int i, T value, Number tap) {
  if (takes) {
    best.value[i] = value;
    best.tap[i] = tap;
  }
}

template <Order order, typename T, int V, typename Number>
void take(thread Best<T, V, Number>& best, int i, T value, Number tap) {
  const bool takes = wins<order>(value, tap, best.value[i], best.tap[i]);
  replace_if(takes, best, i, value, tap);
}

// Forward, too, but where no value is better than `least` the best has no tap
// yet: to look at each time takes longer than to find the first at last.
template <typename T, int V, typename Number>
void take_better(thread Best<T, V, Number>& best, int i, T value, Number tap) {
  replace_if(takes_over(value, best.value[i]), best, i, value, tap);
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
    const bool is_tap = !with_taps || !is_none(own.v[i]);
    take<order>(best, i, v.v[i], is_tap ? first_tap + uint(own.v[i]) : ~0u);
  }
}
