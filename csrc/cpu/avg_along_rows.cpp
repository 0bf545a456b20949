#include "cpu/along_rows.h"
#include "cpu/avg_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

void avg_along_rows(const AvgTask& task, int64_t begin, int64_t end) {
  with_period(task.channels, [&]<int P>() {
    with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
      const AvgEnds<T> ends(task);
      const AlongRows<AvgEnds<T>, P> rows(task);
      Walk walk(task.links, begin);
      for (auto i = begin; i < end; ++i, walk.next()) {
        rows.reduce(ends, walk, i);
      }
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
