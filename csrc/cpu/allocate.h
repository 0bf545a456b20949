#pragma once

#include "mlx/array.h"

namespace mlx_pooling::cpu {

// Gives the array memory that begins where a vector does, unlike that of MLX:
// no vector of a row lies across two lines of the cache then.
void allocate(mlx::core::array& output);

} // namespace mlx_pooling::cpu
