#pragma once

#include "geometry.h"

// Of shapes that nothing could index. Each check throws std::invalid_argument:
// from the call or, where that is compiled for any shape, once there is one.

namespace mlx_pooling {

mlx::core::Shape
checked_output_shape(const Window& window, const mlx::core::array& x);

// Of x and the indices that go with it.
mlx::core::Shape
checked_unpooled_shape(const Window& window, const mlx::core::array& x);

// Windows of x have taps that offsets can number.
void check_offsets(const mlx::core::Shape& x_shape, const Window& window);

// `shape` has positions that indices can number.
void check_plane(const mlx::core::Shape& shape, const Window& window);

} // namespace mlx_pooling
