#pragma once

#include <cstdint>

namespace mlx_pooling::cpu {

// Results of more bytes are stored around the caches; 0: none are. The
// last-level caches together, halved, or MLX_POOLING_CACHE_BYTES.
int64_t most_cached_bytes();

} // namespace mlx_pooling::cpu
