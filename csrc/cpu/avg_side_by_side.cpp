#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <int L, typename T>
void reduce_groups(const AvgTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  const Average<T> average(task);
  auto channels = task.channels;
  const GroupPlaces<A, L> places(task);
  const auto ahead = rows_ahead_bytes<T>(task);
  auto* from_end = static_cast<const T*>(task.from_end);
  for_each_group(
      task, begin, end,
      [&](const Walk& walk, int64_t i, int64_t count) MLX_POOLING_LAMBDA {
        auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
        auto total = broadcast<A, L>(0);
        with_count(walk.columns(), [&](auto taps) MLX_POOLING_LAMBDA {
          walk.for_each_row([&](int64_t spatial, int64_t) MLX_POOLING_LAMBDA {
            auto* from = x + spatial * channels;
            fetch_ahead<L>(from, ahead);
            fetch_ahead<L>(from + L, ahead);
            auto low = load_wide<L>(from, from_end);
            auto high = load_wide<L>(from + L, from_end);
            for (int64_t k = 0; k < taps; ++k) {
              auto elements = permuted<A, L>(low, high, places[k]);
              total += average.template terms<L>(elements);
            }
          });
        });
        auto* y = static_cast<T*>(task.to) + i * channels;
        auto divisor = divisor_at<typename Average<T>::Divisor>(
            task.divisor, walk.d(), walk.h(), walk.w());
        bool all = (end - i) * channels >= L;
        store_wide<false, L>(
            y, average.template result<L>(total, divisor), count * channels,
            all);
      });
}

template <int L, typename T>
void reduce(const AvgTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    reduce_groups<L, T>(task, begin, end);
  }
}

} // namespace

void avg_side_by_side(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.squared, [&]<typename T>(T) {
    reduce<kGroupLanes<T>, T>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
