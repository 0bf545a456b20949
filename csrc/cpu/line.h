#pragma once

#include <cstdint>

namespace mlx_pooling::cpu {

// A cache line's, or on some CPUs half of one's.
inline constexpr int64_t kLineBytes = 64;

} // namespace mlx_pooling::cpu
