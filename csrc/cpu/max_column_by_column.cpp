#include "cpu/column_by_column.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Windows [begin, end) of one row. False if there is a NaN nearby.
template <int K, typename T, bool kTaps>
bool reduce(const MaxTask& task, int64_t begin, int64_t end) {
  const MaxEnds<T, kTaps, Rule::fast> ends(task);
  return ColumnByColumn<decltype(ends), K>(task, ends).run(begin, end);
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  with_columns(task.links.axes[2].kernel, [&]<int K>() {
    with_compared_type(task.dtype, [&]<typename T>(T) {
      for_each_row(task, begin, end, [&](int64_t first, int64_t last) {
        bool is_done = task.offsets ? reduce<K, T, true>(task, first, last)
                                    : reduce<K, T, false>(task, first, last);
        // So few taps may be walked over, where that is rare.
        if (!is_done) {
          cpu::kernels().max_pool(task, first, last);
        }
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
