#pragma once

#include "geometry.h"

namespace mlx_pooling::cpu {

// Pairs the positions of a plane (the inputs of `geometry`) with the elements
// (its outputs) whose indices name them, the first to do so. All ones where
// there is none.
void unpool_routes(
    const Geometry& geometry,
    const uint32_t* indices,
    uint32_t* sources,
    uint32_t* targets);

} // namespace mlx_pooling::cpu
