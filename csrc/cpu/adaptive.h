#pragma once

#include <cstdint>

#include "geometry.h"

namespace mlx_pooling::cpu {

// Adaptive windows [o * in / out, ceil((o + 1) * in / out)), one output after
// the other, so that a table of them divides once. The outputs whose windows
// contain an input are those of `in` and `out` the other way round.
class AdaptiveWindows {
 public:
  AdaptiveWindows(int64_t in, int64_t out)
      : out_(out), quotient_(in / out), rest_(in % out) {}

  void next() {
    start_ += quotient_;
    residue_ += rest_;
    if (residue_ >= out_) {
      residue_ -= out_;
      ++start_;
    }
  }

  int64_t start() const {
    return start_;
  }

  int64_t size() const {
    auto beyond = residue_ + rest_;
    return quotient_ + (beyond > 0 ? 1 : 0) + (beyond > out_ ? 1 : 0);
  }

 private:
  int64_t out_;
  int64_t quotient_;
  int64_t rest_;
  int64_t start_ = 0;
  int64_t residue_ = 0; // o * in, of `out`
};

} // namespace mlx_pooling::cpu
