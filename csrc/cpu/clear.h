#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Writes zeros to memory that begins with a cache line.
void clear(void* to, int64_t bytes, bool around_caches);

// Writes zeros to the positions, of so many bytes each, that have no links.
void clear_unlinked(
    const Links& links, int64_t batch, int64_t position_bytes, void* to);

} // namespace mlx_pooling::cpu
