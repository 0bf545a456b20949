#pragma once

#include <cstdint>

namespace mlx_pooling::metal {

// Tiles do not grow beyond what leaves so many threads.
inline constexpr int64_t kBusyThreads = 8192;

// Fewer threads than this leave a GPU idle.
inline constexpr int64_t kFewThreads = 2048;

#if defined(MLX_POOLING_HOST_SHADERS)
// Tests choose, so that small arrays get the plans of large ones.
int64_t busy_threads();
int64_t few_threads();
#else
inline int64_t busy_threads() {
  return kBusyThreads;
}
inline int64_t few_threads() {
  return kFewThreads;
}
#endif

} // namespace mlx_pooling::metal
