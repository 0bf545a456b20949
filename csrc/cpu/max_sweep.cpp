#include "cpu/max_units.h"
#include "cpu/sweep.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

struct Reduce {
  template <typename Ends>
  static void run(const MaxTask& task, int64_t unit, Ends& ends) {
    Sweep<Ends>(task, ends).run(*task.tiling, unit);
  }
};

} // namespace

void max_sweep(const MaxTask& task, int64_t begin, int64_t end) {
  reduce_units<Reduce>(task, begin, end);
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
