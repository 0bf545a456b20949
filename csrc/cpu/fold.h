#pragma once

#include "geometry.h"

namespace mlx_pooling::cpu {

// The same pooling with as few spatial axes as will do: those that a window
// does not move along count as batch where they come first, as channels where
// they come last, and planes that are one window count as rows.
Geometry folded(Geometry geometry);

// A volume's pooling as two, one after the other: within each plane, then along
// depth at each position of a plane. `of_gradient`: from windows to their
// inputs.
struct Stages {
  Geometry planes;
  Geometry columns;
};

Stages stages(const Geometry& geometry, bool of_gradient);

} // namespace mlx_pooling::cpu
