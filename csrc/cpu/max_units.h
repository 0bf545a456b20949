#pragma once

#include <type_traits>

#include "cpu/dispatch.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// False if there is a NaN, and the rule was not for that.
template <typename Reduce, typename T, typename Tap, Rule kRule>
bool reduce_by_rule(const MaxTask& task, int64_t unit) {
  MaxEnds<T, Tap, kRule> ends(task);
  Reduce::run(task, unit, ends);
  return !ends.saw_nan();
}

// By the fast rule and, if that says that there is a NaN, by the exact one,
// which is rare enough to find taps nobody asks for.
template <typename Reduce, typename T, typename Tap>
void reduce_unit(const MaxTask& task, int64_t unit) {
  bool is_done = reduce_by_rule<Reduce, T, Tap, Rule::fast>(task, unit);
  if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
    if (!is_done) {
      reduce_by_rule<Reduce, T, WideTap<T>, Rule::exact>(task, unit);
    }
  }
}

// Calls Reduce::run(task, unit, ends) for each, with ends for its elements.
template <typename Reduce>
void reduce_units(const MaxTask& task, int64_t begin, int64_t end) {
  with_value_and_tap<uint8_t, uint16_t>(
      task, true, [&]<typename T, typename Tap>() {
        for (auto unit = begin; unit < end; ++unit) {
          reduce_unit<Reduce, T, Tap>(task, unit);
        }
      });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
