#include "cpu/along_rows.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <typename T, typename Tap, int P>
void reduce(const MaxTask& task, int64_t begin, int64_t end) {
  using Fast = MaxEnds<T, Tap, Rule::fast>;
  using Exact = MaxEnds<T, WideTap<T>, Rule::exact>;
  const Fast fast(task);
  const Exact exact(task);
  const AlongRows<Fast, P> rows(task);
  const AlongRows<Exact, P> exact_rows(task);
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    bool is_done = rows.reduce(fast, walk, i);
    if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
      if (!is_done) {
        exact_rows.reduce(exact, walk, i);
      }
    }
  }
}

} // namespace

void max_along_rows(const MaxTask& task, int64_t begin, int64_t end) {
  with_period(task.channels, [&]<int P>() {
    with_value_and_tap(task, false, [&]<typename T, typename Tap>() {
      reduce<T, Tap, P>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
