#pragma once

#include "metal/plan.h"
#include "metal/select.h"

namespace mlx_pooling::metal {

// Plans in which lanes of a simdgroup share the taps of an output; where these
// are too few, in two launches: over slices of windows, and over what they
// leave.

Plan plan_max_lanes(
    const Geometry& g,
    Split split,
    Operand x,
    Operand y,
    const Operand* offsets);

Plan plan_avg_lanes(
    const Geometry& g, Split split, Operand x, Averaging averaging, Operand y);

} // namespace mlx_pooling::metal
