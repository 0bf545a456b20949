#include "cpu/column_by_column.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// False if there is a NaN nearby.
template <int K, typename T, typename Tap>
bool reduce(const MaxTask& task, Range part, Range next) {
  using Ends = MaxEnds<T, Tap, Rule::fast>;
  const Ends ends(task);
  return ColumnByColumn<Ends, K>(task, ends).run(part, next);
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  auto& [depth, height, width] = task.links.axes;
  auto taps = depth.kernel * height.kernel * width.kernel;
  bool may_be_bytes = taps <= kMostColumnTaps<uint8_t>;
  with_columns(width.kernel, [&]<int K>() {
    with_value_and_tap<uint8_t>(
        task, may_be_bytes, [&]<typename Value, typename Tap>() {
          with_columns_of<Value>(task.channels, [&]<typename T>() {
            for_each_row(task, begin, end, [&](Range part, Range next) {
              // So few taps may be walked over, where that is rare.
              if (!reduce<K, T, Tap>(task, part, next)) {
                cpu::kernels().max_walk(task, part.begin, part.end);
              }
            });
          });
        });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
