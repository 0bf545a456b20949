#pragma once

#include <memory>
#include <vector>

#include "primitives.h"

namespace mlx_pooling {

// The outputs of a pooling: nodes of the graph or, if they are little work for
// the CPU and the inputs are there already, values. To hand that to the thread
// of a stream and to wait for it takes up to ten times as long.
std::vector<mlx::core::array> outputs_of(
    const std::shared_ptr<Pooling>& pooling,
    const std::vector<mlx::core::Shape>& shapes,
    const std::vector<mlx::core::Dtype>& dtypes,
    const std::vector<mlx::core::array>& inputs);

} // namespace mlx_pooling
