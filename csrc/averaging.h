#pragma once

#include <cstdint>

namespace mlx_pooling {

// What an average is of, besides the elements themselves.
struct Averaging {
  int32_t zero_point = 0; // of int8 and uint8, which are quantized
  int exponent = 1;       // 2 or 3: a norm, of float32 or float64
};

} // namespace mlx_pooling
