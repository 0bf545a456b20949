#include "cpu/max_ends.h"
#include "cpu/sweep.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// False if there is a NaN, and the rule was not for that.
template <typename T, bool kTaps, Rule kRule>
bool sweep_unit(const MaxTask& task, int64_t unit) {
  using Ends = MaxEnds<Compared<T>, kTaps, kRule>;
  Ends ends(task, flips<T>(task.minimum));
  Sweep<typename Ends::Op, Ends>(task.links, task.channels, ends)
      .run(*task.tiling, unit);
  return !ends.saw_nan();
}

template <typename T, bool kTaps>
void sweep(const MaxTask& task, int64_t begin, int64_t end) {
  for (auto unit = begin; unit < end; ++unit) {
    bool is_done = sweep_unit<T, kTaps, Rule::fast>(task, unit);
    if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
      if (!is_done) {
        sweep_unit<T, kTaps, Rule::exact>(task, unit);
      }
    }
  }
}

} // namespace

void max_sweep(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    task.offsets ? sweep<T, true>(task, begin, end)
                 : sweep<T, false>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
