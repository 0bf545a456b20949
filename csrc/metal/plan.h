#pragma once

#include <vector>

#include "geometry.h"
#include "metal/launch.h"
#include "mlx/dtype.h"

namespace mlx_pooling::metal {

// An array as far as a plan depends on it.
struct Operand {
  mlx::core::Dtype dtype;
  int64_t byte_offset = 0; // of its first element in its buffer
};

// The launches of one operation: one, unless it has more rows than a grid can
// number. Buffer indices follow the argument order of each kernel.

std::vector<Launch> plan_max_pool(
    const Geometry& geometry, Operand x, Operand y, const Operand* offsets);

std::vector<Launch> plan_max_pool_scatter(
    const Geometry& geometry, Operand offsets, Operand dy, Operand dx);

std::vector<Launch> plan_max_pool_gather(
    const Geometry& geometry, Operand offsets, Operand y, bool with_values);

// `geometry` has the plane as input. The kernels take {sources}, {indices,
// sources} and {indices, sources, targets}.
struct UnpoolLaunches {
  std::vector<Launch> clear;
  std::vector<Launch> claim;
  std::vector<Launch> settle;
};

UnpoolLaunches plan_unpool_routes(const Geometry& geometry);

std::vector<Launch>
plan_avg_pool(const Geometry& geometry, Operand x, Operand y);

std::vector<Launch>
plan_avg_pool_grad(const Geometry& geometry, Operand dy, Operand dx);

} // namespace mlx_pooling::metal
