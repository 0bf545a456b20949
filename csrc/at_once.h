#pragma once

#include <vector>

#include "mlx/array.h"

namespace mlx_pooling {

// Computes the outputs of a new node of the graph if that is little work for
// the CPU and the inputs are there already. To hand it to the thread of a
// stream and to wait for that takes up to ten times as long.
void compute_if_small(std::vector<mlx::core::array>& outputs);

} // namespace mlx_pooling
