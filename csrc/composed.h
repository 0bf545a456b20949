#pragma once

#include <utility>

#include "mlx/array.h"
#include "mlx/stream.h"
#include "window.h"

namespace mlx_pooling {

// The operations of ops.h out of MLX's own primitives: pad, slice, stack and
// reduce, or gather and scatter where windows differ. For devices without
// kernels. Arguments are already checked.

// Values and flat spatial indices.
std::pair<mlx::core::array, mlx::core::array> composed_max_pool(
    const mlx::core::array& x, const Window& window, mlx::core::Stream s);

// `positions`: uint32.
mlx::core::array composed_max_unpool(
    const mlx::core::array& x,
    const mlx::core::array& positions,
    const Window& window,
    mlx::core::Stream s);

// Not for half types, whose sums would be rounded more than once.
mlx::core::array composed_sum_pool(
    const mlx::core::array& x, const Window& window, mlx::core::Stream s);

mlx::core::array composed_avg_pool(
    const mlx::core::array& x, const Window& window, mlx::core::Stream s);

} // namespace mlx_pooling
