#pragma once

#include "cpu/links.h"

namespace mlx_pooling::cpu {

// Positions along all axes behind one: those of each position along it.
int64_t positions_behind(int axis, const Links& links);

// How work is divided into units that share nothing: by sample, by bands of
// positions along one axis and by blocks of channels. Results do not depend on
// how.
class Tiling {
 public:
  // Of a sweep; of windows reduced row by row, each output as a sample of its
  // own; and of handing each window's cotangent to its winner.
  static Tiling
  sweep(const Links& links, int64_t batch, int64_t channels, int64_t threads);
  static Tiling row_by_row(int64_t outputs, int64_t channels, int64_t threads);
  static Tiling winners(const Links& covers, int64_t batch, int64_t channels);

  struct Unit {
    int64_t sample;
    Range band;
    Range channels;
  };

  int64_t units() const {
    return batch_ * bands_ * blocks_;
  }

  Unit unit(int64_t index) const;

  // The outermost along which windows reach anywhere.
  int axis() const {
    return axis_;
  }

  // That of the bands: most often the same.
  int band_axis() const {
    return band_axis_;
  }
  // Whether every band needs nearly all rows of each plane.
  bool repeats_rows() const {
    return repeats_rows_;
  }

 private:
  // Scratch memory for each channel, in elements.
  struct Memory {
    int64_t fixed;
    int64_t per_position;
  };

  Tiling(int axis, int64_t batch, int64_t positions, int64_t channels);
  void divide(int64_t halo, Memory memory, int64_t least_units);
  void add_bands(int axis, int64_t positions, int64_t halo, int64_t threads);
  void add_blocks(int64_t most, int64_t units);

  int axis_;
  int band_axis_;
  int64_t batch_;
  int64_t positions_;
  int64_t channels_;
  int64_t bands_ = 1;
  int64_t blocks_ = 1;
  bool repeats_rows_ = false;
};

} // namespace mlx_pooling::cpu
