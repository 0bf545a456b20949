#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Calls visit(T{}) with the type of an integer dtype, or of the bytes that
// bools are.
template <typename Visit>
void with_integer_type(Val dtype, Visit visit) {
  switch (dtype) {
    case Val::int8:
      return visit(int8_t{});
    case Val::int16:
      return visit(int16_t{});
    case Val::uint16:
      return visit(uint16_t{});
    case Val::int32:
      return visit(int32_t{});
    case Val::uint32:
      return visit(uint32_t{});
    case Val::int64:
      return visit(int64_t{});
    case Val::uint64:
      return visit(uint64_t{});
    default:
      return visit(uint8_t{});
  }
}

template <int L, typename T>
MLX_POOLING_INLINE Vec<float, L> as_floats(Vec<T, L> integers) {
  if constexpr (sizeof(T) < sizeof(float)) {
    return converted<float, L>(resize<int32_t, L>(integers));
  } else {
    return converted<float, L>(integers);
  }
}

} // namespace

void to_floats(const Integers& integers, int64_t begin, int64_t end) {
  with_integer_type(integers.dtype, [&]<typename T>(T) {
    const auto* from = static_cast<const T*>(integers.from) + begin;
    auto* to = integers.to + begin;
    for_each_lane<kFullLanes<float>>(
        end - begin, [&]<int L>(Lanes<L>, int64_t i) MLX_POOLING_LAMBDA {
          fetch_ahead<L>(from + i);
          store<L>(to + i, as_floats<L, T>(load<L>(from + i)));
        });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
