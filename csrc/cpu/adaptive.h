#pragma once

#include <cstdint>

namespace mlx_pooling::cpu {

// Calls visit(o, start, size) for each of the adaptive windows
// [o * in / out, ceil((o + 1) * in / out)), dividing once. The outputs whose
// windows contain an input are those of `in` and `out` the other way round.
template <typename Visit>
void for_each_adaptive_window(int64_t in, int64_t out, Visit visit) {
  const auto quotient = in / out;
  const auto rest = in % out;
  int64_t start = 0;
  int64_t residue = 0; // o * in, of `out`
  for (int64_t o = 0; o < out; ++o) {
    auto end = residue + rest;
    visit(o, start, quotient + (end > 0 ? 1 : 0) + (end > out ? 1 : 0));
    start += quotient;
    residue += rest;
    if (residue >= out) {
      residue -= out;
      ++start;
    }
  }
}

} // namespace mlx_pooling::cpu
