#pragma once

#include <utility>

#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Calls visit<I>() for each I below N. A loop of many or large visits compilers
// leave as it is, and what it would hold in registers in memory.
template <int N, typename Visit>
MLX_POOLING_INLINE void unrolled(Visit visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) MLX_POOLING_LAMBDA {
    (visit.template operator()<I>(), ...);
  }(std::make_integer_sequence<int, N>{});
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
