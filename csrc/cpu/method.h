#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Which of the CPU's kernels a pooling operation takes.
enum class Method {
  walk,  // visit every tap of every window: Walk
  sweep, // reduce along one axis after the other: Sweep
};

// `with_taps` says that it matters which tap of a window wins.
Method choose_method(const Links& links, bool with_taps);

} // namespace mlx_pooling::cpu
