#pragma once

#include "divisor.h"

// How elements become what a window adds up, and sums averages: the arithmetic
// of csrc/cpu/average.h. Of integers whose averages are integers, bytes are
// quantized and others only summed.

// What elements are added up in, for averages of type T.
template <typename T>
struct Sum {
  using type = typename Accumulator<T>::type;
};
template <>
struct Sum<uchar> {
  using type = int;
};
template <>
struct Sum<char> {
  using type = int;
};

template <typename A, typename T>
A term(constant PoolParams&, T element) {
  const A v = A(element);
  return power == 2 ? v * v : power == 3 ? v * v * v : v;
}
template <typename A>
A term(constant PoolParams& p, uchar quantized) {
  return A(quantized) - A(p.zero_point);
}
template <typename A>
A term(constant PoolParams& p, char quantized) {
  return A(quantized) - A(p.zero_point);
}

// An element that adds nothing.
template <typename T>
T blank(constant PoolParams& p) {
  return sizeof(T) == 1 ? T(p.zero_point) : T(0);
}

template <int V, typename T, typename A>
void add_pack(constant PoolParams& p, thread A* total, Pack<T, V> elements) {
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    total[i] += term<A>(p, elements.v[i]);
  }
}

template <int V, typename T, typename A>
void add_column(constant PoolParams& p, thread A* total, const device T* from) {
  add_pack<V>(p, total, load<V>(from));
}

// What a window's sum is divided by, from the taps it counts. Of a norm, that
// scales up to a whole window.
inline float window_divisor(constant PoolParams& p, float counted) {
  if (uniform_divisor) {
    return p.divisor;
  }
  return root > 1 ? counted / p.divisor : counted;
}

// Metal has none. This is that of csrc/cpu/roots.h, less subnormal numbers,
// which GPUs take for zeros: Newton's, from a number with a third of the
// exponent. As of a power, NaN of what is negative.
inline float cube_root(float cube) {
  const float third = 1.0f / 3.0f;
  const int two_thirds_of_bias = 709958653; // less half the mantissa's error
  float near = as_type<float>(
      int(float(as_type<int>(cube)) * third) + two_thirds_of_bias);
  MLX_POOLING_UNROLL
  for (int i = 0; i < 3; ++i) {
    near += (cube / (near * near) - near) * third;
  }
  const bool is_regular = cube > 0.0f && cube < INFINITY;
  return is_regular ? near : cube < 0.0f ? NAN : cube;
}

template <typename To>
To average(constant PoolParams&, float sum, float divisor) {
  const float mean = sum / divisor;
  return To(
      root == 2       ? precise::sqrt(mean)
          : root == 3 ? cube_root(mean)
                      : mean);
}

// Rounded after each step, and to an integer at last, ties to even.
template <typename To>
To average(constant PoolParams& p, int sum, float divisor) {
  MLX_POOLING_UNFUSED
  if (sizeof(To) > 1) {
    return To(sum);
  }
  const float steps = float(sum) * (1.0f / divisor);
  const float mean = steps + float(p.zero_point);
  const float least = float(numeric_limits<To>::min());
  const float most = float(numeric_limits<To>::max());
  return To(rint(clamp(mean, least, most)));
}

template <typename To>
To average(constant PoolParams&, long sum, float) {
  return To(sum);
}

template <typename To, int V, typename A>
Pack<To, V>
averages(constant PoolParams& p, const thread A* sums, float divisor) {
  Pack<To, V> pack;
  MLX_POOLING_UNROLL
  for (int i = 0; i < V; ++i) {
    pack.v[i] = average<To>(p, sums[i], divisor);
  }
  return pack;
}
