#pragma once

#include "mlx/array.h"
#include "mlx/stream.h"

namespace mlx_pooling {

// Pooling treats channels alike, so that those of a channels-first array may
// as well be batch axes: (N, C, *spatial, 1) is channels last, too, and no copy
// of what (N, *spatial, C) is a view of.

// Whether x, (*batch, *spatial, C), is such a view.
bool is_channels_first(const mlx::core::array& x, int spatial_axes);

// (*batch, *spatial, C) to (*batch, C, *spatial, 1), and back.
mlx::core::array
as_planes(const mlx::core::array& x, int spatial_axes, mlx::core::Stream s);
mlx::core::array from_planes(
    const mlx::core::array& planes, int spatial_axes, mlx::core::Stream s);

} // namespace mlx_pooling
