#pragma once

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "cpu/element.h"
#include "cpu/vec.h"
#include "mlx/dtype.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

using Val = mlx::core::Dtype::Val;

// Calls visit(T{}) with the element type of a float dtype; complex64 as the
// float32 pairs it consists of.
template <typename Visit>
void with_float_type(Val dtype, Visit visit) {
  switch (dtype) {
    case Val::float16:
      return visit(Float16{});
    case Val::bfloat16:
      return visit(BFloat16{});
    case Val::float32:
    case Val::complex64:
      return visit(float{});
    case Val::float64:
      return visit(double{});
    default:
      throw std::invalid_argument("[mlx_pooling] Not a float dtype.");
  }
}

template <int N, typename Visit>
void with_power_type(Val dtype, Visit visit) {
  return dtype == Val::float64 ? visit(Power<double, N>{})
                               : visit(Power<float, N>{});
}

// The types that averages are of, or exact sums, or norms of an exponent other
// than 1.
template <typename Visit>
void with_averaged_type(Val dtype, int exponent, Visit visit) {
  switch (exponent) {
    case 2:
      return with_power_type<2>(dtype, visit);
    case 3:
      return with_power_type<3>(dtype, visit);
    default:
      break;
  }
  switch (dtype) {
    case Val::int8:
      return visit(Quantized<int8_t>{});
    case Val::uint8:
    case Val::bool_:
      return visit(Quantized<uint8_t>{});
    case Val::int32:
      return visit(int32_t{});
    case Val::int64:
      return visit(int64_t{});
    default:
      return with_float_type(dtype, visit);
  }
}

// The types that cotangents are added up in: signed integers as unsigned ones,
// which makes no difference.
template <typename Visit>
void with_added_type(Val dtype, Visit visit) {
  switch (dtype) {
    case Val::bool_:
      return visit(Bool{});
    case Val::int8:
    case Val::uint8:
      return visit(uint8_t{});
    case Val::int16:
    case Val::uint16:
      return visit(uint16_t{});
    case Val::int32:
    case Val::uint32:
      return visit(uint32_t{});
    case Val::int64:
    case Val::uint64:
      return visit(uint64_t{});
    default:
      return with_float_type(dtype, visit);
  }
}

// The types that elements are compared as (see compared.h).
template <typename Visit>
void with_compared_type(Val dtype, Visit visit) {
  with_added_type(dtype, [&]<typename T>(T) {
    if constexpr (std::is_integral_v<Arithmetic<T>>) {
      visit(std::make_signed_t<Arithmetic<T>>{});
    } else {
      visit(T{});
    }
  });
}

template <typename Visit>
MLX_POOLING_INLINE void with_offset_type(Val dtype, Visit visit) {
  switch (dtype) {
    case Val::uint8:
      return visit(uint8_t{});
    case Val::uint16:
      return visit(uint16_t{});
    default:
      return visit(uint32_t{});
  }
}

template <int N>
using Lanes = std::integral_constant<int, N>;

template <typename WidestLane>
inline constexpr int kFullLanes = kVectorBytes / sizeof(WidestLane);

// Calls visit(Lanes<L>{}) with as many channels per vector as fill one of the
// widest lanes involved and as `channels` can fill.
template <typename WidestLane, typename Visit>
void with_lanes(int64_t channels, Visit visit) {
  constexpr int kFull = kFullLanes<WidestLane>;
  constexpr int kQuarter = kFull > 4 ? kFull / 4 : 1;
  if (channels >= kFull) {
    visit(Lanes<kFull>{});
  } else if (channels >= kQuarter) {
    visit(Lanes<kQuarter>{});
  } else {
    visit(Lanes<1>{});
  }
}

template <int N>
using Vectors = std::integral_constant<int, N>;

// Calls visit(Vectors<U>{}, c) for blocks of U vectors that cover all channels,
// for which with_lanes chose L: as many vectors as registers hold share the
// arithmetic of each tap, at most kMost, and more than 8 only if that may be.
// The last block may overlap its neighbour rather than be shorter.
template <typename WidestLane, int L, int kMost = 8, typename Visit>
MLX_POOLING_INLINE void
for_each_block(int64_t channels, Visit visit, bool may_be_wide = false) {
  constexpr bool is_full = L == kFullLanes<WidestLane>;
  // Not of those that fill a quarter, which are fewer.
  constexpr bool may_be_four =
      is_full || (L == 1 && kFullLanes<WidestLane> > 16);
  constexpr bool has_32_registers = kVectorBytes == 64;
  int64_t c = 0;
  if constexpr (kMost >= 16 && is_full && has_32_registers) {
    for (; may_be_wide && c + 16 * L <= channels; c += 16 * L) {
      visit(Vectors<16>{}, c);
    }
  }
  if constexpr (kMost >= 8 && is_full && has_32_registers) {
    for (; c + 8 * L <= channels; c += 8 * L) {
      visit(Vectors<8>{}, c);
    }
  }
  if constexpr (kMost >= 4 && may_be_four) {
    for (; c + 4 * L <= channels; c += 4 * L) {
      visit(Vectors<4>{}, c);
    }
  }
  if constexpr (kMost >= 2) {
    for (; c + 2 * L <= channels; c += 2 * L) {
      visit(Vectors<2>{}, c);
    }
  }
  for (; c < channels; c += L) {
    visit(Vectors<1>{}, std::min<int64_t>(c, channels - L));
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
