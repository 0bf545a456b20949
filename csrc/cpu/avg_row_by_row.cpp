#include "cpu/avg_ends.h"
#include "cpu/row_by_row.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

void avg_row_by_row(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    AvgEnds<T> ends(task);
    RowByRow<AvgEnds<T>> row_by_row(task, ends);
    for (auto unit = begin; unit < end; ++unit) {
      row_by_row.run(task.tiling->unit(unit));
    }
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
