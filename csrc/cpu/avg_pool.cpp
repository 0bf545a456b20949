#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <typename T, int L>
void average(const AvgTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  // Integers are only summed, and dividing vectors of them is slow.
  constexpr bool is_divided = std::is_floating_point_v<A>;
  const auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    A divisor = divisor_at<A>(task.divisor, walk.d(), walk.h(), walk.w());
    for_each_block<A, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> total[U] = {};
          walk.for_each_tap(
              channels, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
                for (int u = 0; u < U; ++u) {
                  fetch_ahead<L>(x + at + c + u * L);
                  total[u] += load<L>(x + at + c + u * L);
                }
              });
          for (int u = 0; u < U; ++u) {
            store<L>(y + c + u * L, is_divided ? total[u] / divisor : total[u]);
          }
        });
  }
}

} // namespace

void avg_pool(const AvgTask& task, int64_t begin, int64_t end) {
  with_summed_type(task.dtype, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      average<T, L>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
