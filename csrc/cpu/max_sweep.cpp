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

// By the fast rule and, if that says that there is a NaN, by the exact one,
// which is rare enough to find taps nobody asks for.
template <typename T>
void sweep_unit(const MaxTask& task, int64_t unit) {
  bool is_done = task.offsets ? sweep_unit<T, true, Rule::fast>(task, unit)
                              : sweep_unit<T, false, Rule::fast>(task, unit);
  if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
    if (!is_done) {
      sweep_unit<T, true, Rule::exact>(task, unit);
    }
  }
}

} // namespace

void max_sweep(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    for (auto unit = begin; unit < end; ++unit) {
      sweep_unit<T>(task, unit);
    }
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
