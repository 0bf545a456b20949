#pragma once

#include <cstdint>
#include <limits>

namespace mlx_pooling {

// What an average is of, besides the elements themselves.
struct Averaging {
  int32_t zero_point = 0; // of int8 and uint8, which are quantized
  int exponent = 1;       // 2 or 3: a norm, of float32 or float64
};

// Whether the sum of so many elements of 8 bits, or of their steps from a zero
// point, fits int32.
inline bool sums_bytes(int64_t taps) {
  constexpr int64_t kLargestStep = 255;
  return taps <= std::numeric_limits<int32_t>::max() / kLargestStep;
}

} // namespace mlx_pooling
