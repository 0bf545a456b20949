#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// How a sweep divides its work into units that share nothing: by sample, by
// bands of positions along the outermost axis that has any, and by blocks of
// channels. It follows from sizes alone, so that results do not depend on the
// number of threads.
struct Tiling {
  Tiling(const Links& links, int64_t batch, int64_t channels, int64_t itemsize);

  struct Unit {
    int64_t sample;
    Range band;
    Range channels;
  };

  int64_t units() const {
    return batch * bands * blocks;
  }

  Unit unit(int64_t index) const;

  int axis; // of the bands
  int64_t batch;
  int64_t bands;
  int64_t blocks;

 private:
  int64_t positions_;
  int64_t channels_;
  int64_t granule_;
};

} // namespace mlx_pooling::cpu
