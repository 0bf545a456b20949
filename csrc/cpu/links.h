#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "geometry.h"

namespace mlx_pooling::cpu {

// Pooling links each output to the input taps of its window, and its adjoint
// links each input to the outputs whose windows contain it. Along one axis
// both are arithmetic progressions: `count` positions from `first` in steps of
// AxisLinks::step, the first of them being tap `tap`.
struct Link {
  int64_t first;
  int64_t count;
  int64_t tap;
};

// The links of every position of one axis, so that kernels divide nothing.
struct AxisLinks {
  std::vector<Link> of;
  int64_t other_size;
  int64_t step;
  int64_t tap_step;
  // Of adaptive covers, whose taps are no progression: Link::tap counts from
  // where each window starts.
  std::vector<int64_t> starts;

  int64_t size() const {
    return static_cast<int64_t>(of.size());
  }

  // The tap of the k-th position of a link, which is `other`.
  int64_t tap(const Link& link, int64_t k, int64_t other) const {
    return link.tap + (starts.empty() ? k * tap_step : -starts[other]);
  }
};

struct Links {
  static Links windows(const Geometry& geometry); // from outputs to inputs
  static Links covers(const Geometry& geometry);  // from inputs to outputs

  int64_t other_plane() const {
    return axes[0].other_size * axes[1].other_size * axes[2].other_size;
  }

  std::array<AxisLinks, kMaxSpatialAxes> axes;
  int64_t kernel_height;
  int64_t kernel_width;
};

} // namespace mlx_pooling::cpu
