#pragma once

#include <cstdint>
#include <functional>

namespace mlx_pooling::cpu {

// Below this a thread would finish before a second one wakes.
inline constexpr int64_t kBytesPerThread = 128 * 1024;

// What the machine has, or MLX_POOLING_NUM_THREADS.
int max_threads();

// How many are worth waking to move so many bytes.
int64_t threads_for(int64_t bytes);

// About as many as a thread moves in that time.
int64_t bytes_moved_in(double nanoseconds);

// Calls body(begin, end) over disjoint ranges that cover [0, count), from
// as many threads as `bytes` makes worth while: what all of them move, or could
// while they compute.
void parallel_for(
    int64_t count,
    int64_t bytes,
    const std::function<void(int64_t, int64_t)>& body);

} // namespace mlx_pooling::cpu
