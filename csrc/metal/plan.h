#pragma once

#include <vector>

#include "averaging.h"
#include "geometry.h"
#include "metal/launch.h"
#include "mlx/dtype.h"

namespace mlx_pooling::metal {

// An array as far as a plan depends on it.
struct Operand {
  mlx::core::Dtype dtype;
  int64_t byte_offset = 0; // of its first element in its buffer
};

// An array that some launches of a plan leave to others.
struct Temporary {
  mlx::core::Dtype dtype;
  mlx::core::Shape shape;
};

// Arrays are numbered: the arguments in order, whether given or not, and from
// here on the temporaries.
inline constexpr int kFirstTemporary = 3;
inline constexpr int kNoArray = -1;

// The launches of one operation, in order: one, unless it is taken apart into
// passes or has more rows than a grid can number.
struct Plan {
  std::vector<Launch> launches;
  std::vector<Temporary> temporaries;
};

Plan plan_max_pool(
    const Geometry& geometry, Operand x, Operand y, const Operand* offsets);

Plan plan_max_pool_scatter(
    const Geometry& geometry, Operand offsets, Operand dy, Operand dx);

// The arguments are offsets, y and t.
Plan plan_max_pool_gather(
    const Geometry& geometry, Operand offsets, Operand y, bool with_values);

// The arguments are indices, x and y; `geometry` has the plane as input.
Plan plan_max_unpool(const Geometry& geometry, Operand y);

// The arguments are indices, dy and dx.
Plan plan_max_unpool_grad(const Geometry& geometry, Operand dx);

Plan plan_avg_pool(
    const Geometry& geometry, Operand x, Averaging averaging, Operand y);

Plan plan_avg_pool_grad(const Geometry& geometry, Operand dy, Operand dx);

} // namespace mlx_pooling::metal
