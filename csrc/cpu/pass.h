#pragma once

#include <limits>

#include "cpu/dispatch.h"
#include "cpu/line.h"
#include "cpu/links.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

inline constexpr Range kWholeRow{0, std::numeric_limits<int64_t>::max()};

// Whether these channels, of so many bytes each, are whole cache lines: others
// are stored in two parts.
MLX_POOLING_INLINE bool are_lines(Range channels, int64_t size) {
  return (channels.begin | channels.size()) * size % kLineBytes == 0;
}

// Calls visit(Lanes<L>{}, i) so that vectors of L elements from each i cover
// [0, count). The last may overlap its neighbour. Fewer than L elements are
// covered by vectors of a quarter, but at least four, or one by one.
template <int L, typename Visit>
MLX_POOLING_INLINE void for_each_lane(int64_t count, Visit visit) {
  if constexpr (L > 1) {
    if (count < L) {
      return for_each_lane<(L > 16 ? L / 4 : L > 4 ? 4 : 1)>(count, visit);
    }
  }
  int64_t i = 0;
  for (; i + L <= count; i += L) {
    visit(Lanes<L>{}, i);
  }
  if (i < count) {
    visit(Lanes<L>{}, count - L);
  }
}

// Calls visit(count), as a compile-time constant where it is small; but not for
// what is rare, of which that would be too much code.
template <bool kRare = false, typename Visit>
MLX_POOLING_INLINE void with_count(int64_t count, Visit visit) {
  if constexpr (kRare) {
    visit(count);
  } else {
    switch (count) {
      case 1:
        return visit(std::integral_constant<int64_t, 1>{});
      case 2:
        return visit(std::integral_constant<int64_t, 2>{});
      case 3:
        return visit(std::integral_constant<int64_t, 3>{});
      default:
        return visit(count);
    }
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
