#pragma once

#include <optional>

#include "metal/plan.h"
#include "metal/select.h"

namespace mlx_pooling::metal {

// How one thread moves all of a few channels, of neighbours along W at once:
// as runs of elements, in vectors that need not begin at a multiple of their
// size (metal/runs.h).
struct Run {
  int width; // elements in a vector, of what is stored
  Tile tile; // what is stored
  int reach; // inputs along W that the tile's windows have, or windows
  int read;  // elements in a vector, of what is read
};

// None where vectors of channels are as good.
std::optional<Run>
window_run(const Geometry& g, const std::vector<Operand>& operands);
std::optional<Run>
cover_run(const Geometry& g, const std::vector<Operand>& operands);

} // namespace mlx_pooling::metal
