#pragma once

#include "geometry.h"
#include "mlx/array.h"

namespace mlx_pooling::cpu {

// y = t at the maxima that `offsets` name, 0 where a window has none. Without
// t, y is the flat spatial positions of the maxima, all ones where none.
void max_pool_gather(
    const Geometry& geometry,
    const mlx::core::array& offsets,
    const mlx::core::array* t,
    mlx::core::array& y);

} // namespace mlx_pooling::cpu
