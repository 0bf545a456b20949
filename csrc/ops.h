#pragma once

#include <optional>
#include <utility>

#include "mlx/array.h"
#include "mlx/utils.h"
#include "window.h"

namespace mlx_pooling {

// The public operations. They check their arguments (throwing
// std::invalid_argument) and accept x of shape (N, *spatial, C) or
// (*spatial, C) with any strides.

mlx::core::array max_pool(
    const mlx::core::array& x,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Also the flat spatial index of each maximum, uint32.
std::pair<mlx::core::array, mlx::core::array> max_pool_with_indices(
    const mlx::core::array& x,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// x at the flat spatial positions that `indices`, integers shaped like x,
// name; zero elsewhere. Indices outside the plane are passed over; of several
// that are equal the first in row-major order counts.
mlx::core::array max_unpool(
    const mlx::core::array& x,
    const mlx::core::array& indices,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Integers and bool give float32.
mlx::core::array avg_pool(
    const mlx::core::array& x,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Exact sums of windows of x, int32 or int64, of that dtype. Has no derivative.
mlx::core::array sum_pool(
    const mlx::core::array& x,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Averages of windows of quantized x, int8 or uint8, of the same dtype, scale
// and zero point. None where there is no kernel for them.
std::optional<mlx::core::array> quantized_avg_pool(
    const mlx::core::array& x,
    int32_t zero_point,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Roots of sums of powers in sliding windows of x, float32 or float64, of its
// dtype; sums of windows that ceil_mode lets hang over are scaled up to whole
// ones, as PyTorch does it. None where there is no kernel for them.
std::optional<mlx::core::array> lp_pool(
    const mlx::core::array& x,
    double exponent,
    const Window& window,
    mlx::core::StreamOrDevice s = {});

// Between these, operations that this thread builds are composed of MLX's own
// primitives, as they are on devices without kernels.
void begin_composed();
void end_composed();

} // namespace mlx_pooling
