#include "cpu/avg_ends.h"
#include "cpu/column_by_column.h"
#include "cpu/dispatch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

void avg_column_by_column(const AvgTask& task, int64_t begin, int64_t end) {
  with_columns(task.links.axes[2].kernel, [&]<int K>() {
    with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
      const AvgEnds<T> ends(task);
      const ColumnByColumn<AvgEnds<T>, K> columns(task, ends);
      for_each_row(task, begin, end, [&](Range part, Range next) {
        columns.run(part, next);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
