#pragma once

#include "covers.h"
#include "divisor.h"

// A sum over so many. Division takes as long as ten multiplications, which are
// as exact for powers of two, and near enough for what 16 bits keep of it.
template <typename T>
T quotient(float sum, float divisor) {
  const int mantissa = as_type<int>(divisor) & 0x7fffff;
  return sizeof(T) == 2 || mantissa == 0 ? T(sum * (1.0f / divisor))
                                         : T(sum / divisor);
}

template <typename T, int V>
Pack<T, V> quotients(const thread float* sums, float divisor) {
  Pack<T, V> pack;
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    pack.v[i] = quotient<T>(sums[i], divisor);
  }
  return pack;
}

// What a window's cotangent is multiplied by for one axis.
template <typename Index>
float own_share(Axis<Index> axis, Cover<Index> cover, Index position) {
  return 1.0f /
      own_divisor(
             axis, start_around(axis, cover, position),
             taps_around(axis, cover));
}
