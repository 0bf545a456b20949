#pragma once

#include <vector>

#include "geometry.h"
#include "metal/launch.h"
#include "metal/select.h"

namespace mlx_pooling::metal {

// A pass over one axis.
struct Pass {
  // Has the axis as W and those before it as H and D.
  Geometry view;
  int64_t channels; // with the positions of axes behind, taken for channels too
  Layout x;         // of the input's side, in the view
  Layout y;         // of the output's
  Block results;
  mlx::core::Shape shape; // of the results alone
  // Whether they are all of the array that they go to.
  bool is_all;

  const Axis& axis() const {
    return view.axes[2];
  }
  // For each position along the axis.
  int64_t elements() const {
    return view.batch * results.size[0] * results.size[1] * channels;
  }
};

// One pass after the other over a slab: all results at some positions along the
// axis of the first pass. Slabs leave their temporaries to each other.
using Slab = std::vector<Pass>;

enum class Order { from_columns, from_depth };

// What the arrays between the passes may take: `element` bytes for each of
// their elements, at most `all` together.
struct Memory {
  int64_t element;
  int64_t all;
};

std::vector<Slab> forward_slabs(const Geometry& g, Order order, Memory memory);

std::vector<Slab> backward_slabs(const Geometry& g, Memory memory);

} // namespace mlx_pooling::metal
