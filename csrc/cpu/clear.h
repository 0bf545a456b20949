#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Writes zeros to the positions, of so many bytes each, that have no links.
void clear_unlinked(
    const Links& links, int64_t batch, int64_t position_bytes, void* to);

} // namespace mlx_pooling::cpu
