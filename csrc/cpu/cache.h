#pragma once

#include <cstdint>

namespace mlx_pooling::cpu {

// More bytes are taken to be in no cache; 0: none are. Half of the last-level
// caches, but not more than the CPUs gain by, where stores around them are
// fast, or MLX_POOLING_CACHE_BYTES.
int64_t most_cached_bytes();

// Whether so many bytes are more than that.
bool outgrows_caches(int64_t bytes);

} // namespace mlx_pooling::cpu
