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
    auto next = residue + rest;
    visit(o, start, quotient + (next > 0 ? 1 : 0) + (next > out ? 1 : 0));
    bool wraps = next >= out;
    start += quotient + (wraps ? 1 : 0);
    residue = wraps ? next - out : next;
  }
}

} // namespace mlx_pooling::cpu
