#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Which of the CPU's kernels a pooling operation takes.
enum class Method {
  walk,    // visit every tap of every window, or every window of every input
  sweep,   // reduce along one axis after the other: Sweep
  winners, // visit every window's winner: HandOut
};

// `with_taps` says that it matters which tap of a window wins.
Method method_of_reduction(const Links& links, bool with_taps);

// Of max_pool_scatter.
Method method_of_scatter(const Links& covers, const Geometry& geometry);

} // namespace mlx_pooling::cpu
