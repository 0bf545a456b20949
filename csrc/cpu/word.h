#pragma once

#include <cstdint>

#include "mlx/dtype.h"

namespace mlx_pooling::cpu {

// Calls visit(T{}) with an integer of an element's size: those that are only
// moved may be of any type.
template <typename Visit>
void with_word(mlx::core::Dtype::Val dtype, Visit visit) {
  using Val = mlx::core::Dtype::Val;
  switch (dtype) {
    case Val::bool_:
    case Val::int8:
    case Val::uint8:
      return visit(uint8_t{});
    case Val::int16:
    case Val::uint16:
    case Val::float16:
    case Val::bfloat16:
      return visit(uint16_t{});
    case Val::int32:
    case Val::uint32:
    case Val::float32:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

} // namespace mlx_pooling::cpu
