#include "cpu/max_ends.h"
#include "cpu/sweep.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// False if there is a NaN, and the rule was not for that.
template <typename T, bool kTaps, Rule kRule>
bool sweep_unit(const MaxTask& task, int64_t unit) {
  using Ends = MaxEnds<T, kTaps, kRule>;
  Ends ends(task);
  Sweep<Ends>(task.links, task.channels, ends).run(*task.tiling, unit);
  return !ends.saw_nan();
}

} // namespace

void max_sweep(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    for (auto unit = begin; unit < end; ++unit) {
      with_rule<T>(task, [&]<bool kTaps, Rule kRule>() {
        return sweep_unit<T, kTaps, kRule>(task, unit);
      });
    }
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
