#pragma once

#include <cstdint>

namespace mlx_pooling::cpu {

// Of all last-level caches together: what the system tells, 0 where it does
// not, or MLX_POOLING_CACHE_BYTES.
int64_t last_level_cache_bytes();

} // namespace mlx_pooling::cpu
