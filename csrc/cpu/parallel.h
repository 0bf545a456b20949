#pragma once

#include <cstdint>
#include <functional>

namespace mlx_pooling::cpu {

// What the machine has, or MLX_POOLING_NUM_THREADS.
int max_threads();

// Calls body(begin, end) over disjoint ranges that cover [0, count), from
// several threads where `bytes`, what all of them move, makes that worth while.
void parallel_for(
    int64_t count,
    int64_t bytes,
    const std::function<void(int64_t, int64_t)>& body);

} // namespace mlx_pooling::cpu
