#include "cpu/avg_ends.h"
#include "cpu/sweep.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

void avg_sweep(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    AvgEnds<T> ends(task);
    Sweep<AvgEnds<T>> sweep(task, ends);
    for (auto unit = begin; unit < end; ++unit) {
      sweep.run(*task.tiling, unit);
    }
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
