#include "cpu/column_by_column.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// False if there is a NaN nearby.
template <int K, typename T, bool kTaps>
bool reduce(const MaxTask& task, Range part, Range next) {
  const MaxEnds<T, kTaps, Rule::fast> ends(task);
  return ColumnByColumn<decltype(ends), K>(task, ends).run(part, next);
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  with_columns(task.links.axes[2].kernel, [&]<int K>() {
    with_compared_type(task.dtype, [&]<typename T>(T) {
      for_each_row(task, begin, end, [&](Range part, Range next) {
        bool is_done = task.offsets ? reduce<K, T, true>(task, part, next)
                                    : reduce<K, T, false>(task, part, next);
        // So few taps may be walked over, where that is rare.
        if (!is_done) {
          cpu::kernels().max_pool(task, part.begin, part.end);
        }
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
