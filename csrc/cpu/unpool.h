#pragma once

#include "geometry.h"
#include "mlx/array.h"

namespace mlx_pooling::cpu {

// y = x at the positions of the plane (the inputs of `geometry`) that
// `indices` name, the first of those that name the same; 0 elsewhere.
void max_unpool(
    const Geometry& geometry,
    const mlx::core::array& indices,
    const mlx::core::array& x,
    mlx::core::array& y);

// dx = dy at the positions of those whose values are there, 0 for others.
void max_unpool_grad(
    const Geometry& geometry,
    const mlx::core::array& indices,
    const mlx::core::array& dy,
    mlx::core::array& dx);

} // namespace mlx_pooling::cpu
