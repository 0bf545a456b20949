#pragma once

#include "cpu/element.h"

// Gradients over windows that have no input in common: each window writes those
// of its own inputs, and looks at its cotangent once.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

using SpreadOffset = uint8_t; // others are of larger windows or adaptive ones

// As a sum of one share is: not -0.
template <typename T, typename V>
MLX_POOLING_INLINE V sum_of_one(V share) {
  return sum<T>(V{}, share);
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
