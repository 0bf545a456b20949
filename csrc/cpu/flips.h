#pragma once

#include "cpu/dispatch.h"
#include "cpu/kernels.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

template <typename T>
using Flip = OffsetLane<Arithmetic<T>, uint8_t>;

// The bits to flip on the way in and out, so that the signed integer or float T
// that an element becomes is the larger the sooner it wins.
template <typename T>
Flip<T> flips(const MaxTask& task) {
  constexpr auto kHighest = Flip<T>(Flip<T>{1} << (8 * sizeof(Flip<T>) - 1));
  if (std::is_floating_point_v<Arithmetic<T>>) {
    return task.minimum ? kHighest : 0;
  }
  auto all = task.dtype == Val::bool_ ? Flip<T>{1} : Flip<T>(~Flip<T>{0});
  auto bits = task.minimum ? all : Flip<T>{0};
  switch (task.dtype) {
    case Val::bool_:
    case Val::uint8:
    case Val::uint16:
    case Val::uint32:
    case Val::uint64:
      return bits ^ kHighest;
    default:
      return bits;
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
