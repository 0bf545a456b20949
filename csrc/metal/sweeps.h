#pragma once

#include "metal/plan.h"
#include "metal/select.h"

namespace mlx_pooling::metal {

// Plans of passes over one axis each. Maxima go from W to D, so that a later
// pass has the more significant part of a tap; averages go from D to W, so that
// the last has the rows and columns that divisors differ in. Gradients go the
// other way, or back.

Plan plan_max_sweeps(
    const Geometry& g, Operand x, Operand y, const Operand* offsets);

Plan plan_max_scatter_sweeps(
    const Geometry& g, Operand offsets, Operand dy, Operand dx);

Plan plan_avg_sweeps(
    const Geometry& g, Operand x, Averaging averaging, Operand y);

Plan plan_avg_grad_sweeps(const Geometry& g, Operand dy, Operand dx);

} // namespace mlx_pooling::metal
