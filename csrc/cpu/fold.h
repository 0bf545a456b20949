#pragma once

#include "geometry.h"

namespace mlx_pooling::cpu {

// The same pooling with as few spatial axes as will do: those that a window
// does not move along count as batch where they come first, as channels where
// they come last.
Geometry folded(Geometry geometry);

} // namespace mlx_pooling::cpu
