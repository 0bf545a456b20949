#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <typename T, int L>
void reduce(const AvgTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  const Average<T> average(task);
  const auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    auto divisor = divisor_at<typename Average<T>::Divisor>(
        task.divisor, walk.d(), walk.h(), walk.w());
    const auto taps = walk.taps();
    for_each_block<A, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> total[U] = {};
          taps.for_each(channels, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
            for (int u = 0; u < U; ++u) {
              fetch_ahead<L>(x + at + c + u * L);
              auto elements = load<L>(x + at + c + u * L);
              total[u] += average.template terms<L>(elements);
            }
          });
          for (int u = 0; u < U; ++u) {
            store<L>(
                y + c + u * L, average.template result<L>(total[u], divisor));
          }
        });
  }
}

} // namespace

void avg_pool(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      reduce<T, L>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
