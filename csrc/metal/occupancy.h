#pragma once

#include <cstdint>

namespace mlx_pooling::metal {

// Tiles do not grow beyond what leaves so many threads.
inline constexpr int64_t kBusyThreads = 8192;

// Fewer threads than this leave a GPU idle.
inline constexpr int64_t kFewThreads = 2048;

// So many, each with at least one load of 16 bytes under way, keep the memory
// of any GPU of Apple busy: 1 TB/s for half a microsecond. Large windows are
// shared out until there are.
inline constexpr int64_t kManyThreads = 32768;

#if defined(MLX_POOLING_HOST_SHADERS)
// Tests choose, so that small arrays get the plans of large ones.
int64_t busy_threads();
int64_t few_threads();
int64_t many_threads();
#else
inline int64_t busy_threads() {
  return kBusyThreads;
}
inline int64_t few_threads() {
  return kFewThreads;
}
inline int64_t many_threads() {
  return kManyThreads;
}
#endif

} // namespace mlx_pooling::metal
