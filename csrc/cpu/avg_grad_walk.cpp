#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each input adds up its shares of the cotangents of all windows around it.
template <typename T, int L, bool IsUniform>
void collect(const AvgTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  const A uniform = divisor_at<A>(task.divisors, 0, 0, 0);
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* dy = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* dx = static_cast<T*>(task.to) + i * channels;
    auto* newest = dy + walk.newest() * channels;
    for_each_block<A, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> total[U] = {};
          walk.for_each([&](Linked o) MLX_POOLING_LAMBDA {
            auto* from = dy + o.spatial * channels + c;
            auto divisor =
                IsUniform ? A{1} : divisor_at<A>(task.divisors, o.d, o.h, o.w);
            for (int u = 0; u < U; ++u) {
              auto share = load<L>(from + u * L);
              total[u] += IsUniform ? share : share / divisor;
            }
          });
          fetch_lines_ahead<U * L * sizeof(T)>(newest + c);
          for (int u = 0; u < U; ++u) {
            auto sum = IsUniform ? total[u] / uniform : total[u];
            store_result(
                dx + c + u * L, stored<T, L>(sum), kAheadBytes,
                task.around_caches);
          }
        });
  }
}

} // namespace

void avg_grad_walk(const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(task.dtype, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      task.divisors.is_uniform ? collect<T, L, true>(task, begin, end)
                               : collect<T, L, false>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
