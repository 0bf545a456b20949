#include "cpu/parallel.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#if defined(__APPLE__)
#include <dispatch/dispatch.h>
#endif

namespace mlx_pooling::cpu {

namespace {

// Below this a thread would finish before a second one wakes.
constexpr int64_t kBytesPerThread = 128 * 1024;
// Chunks for each thread: so many that a thread whose core is taken away for a
// while leaves the rest to the others.
constexpr int64_t kChunksPerThread = 4;

int max_threads() {
  static const int threads = [] {
    int hardware = std::max(1u, std::thread::hardware_concurrency());
    const char* wanted = std::getenv("MLX_POOLING_NUM_THREADS");
    int number = wanted ? std::atoi(wanted) : 0;
    return number > 0 ? number : hardware;
  }();
  return threads;
}

struct Task {
  const std::function<void(int64_t, int64_t)>& body;
  int64_t count;
  int64_t chunks;

  void run(int64_t chunk) const {
    body(count * chunk / chunks, count * (chunk + 1) / chunks);
  }
};

} // namespace

void parallel_for(
    int64_t count,
    int64_t bytes,
    const std::function<void(int64_t, int64_t)>& body) {
  auto threads = std::min<int64_t>(
      {max_threads(), count, std::max<int64_t>(1, bytes / kBytesPerThread)});
  if (threads <= 1) {
    body(0, count);
    return;
  }
  Task task{body, count, std::min(count, threads * kChunksPerThread)};
#if defined(__APPLE__)
  dispatch_apply_f(
      task.chunks, DISPATCH_APPLY_AUTO, &task, [](void* context, size_t chunk) {
        static_cast<Task*>(context)->run(chunk);
      });
#else
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t chunk = 0; chunk < task.chunks; ++chunk) {
    task.run(chunk);
  }
#endif
}

} // namespace mlx_pooling::cpu
