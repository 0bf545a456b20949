#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Four neighbouring rows of windows, or the same part of each: two in either of
// two planes. Of an odd number of planes or rows the last has no neighbour.
struct Quad {
  int64_t sample;
  int64_t d, h; // of the first
  Range width;
};

inline constexpr int kQuadKernel = 3; // along each axis

// How positions are divided into quads: those of all planes before the next two
// rows, so that what they have in common is still in a cache.
class Quads {
 public:
  Quads(const Links& links, int64_t channels);

  int64_t of_sample() const {
    return planes_ * rows_ * parts_;
  }

  Quad operator[](int64_t i) const;

 private:
  int64_t width_;
  int64_t planes_; // in twos
  int64_t rows_;   // in twos
  int64_t parts_;  // of a row
};

} // namespace mlx_pooling::cpu
