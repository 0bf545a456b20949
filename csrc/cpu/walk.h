#pragma once

#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// One linked element of the other side.
struct Linked {
  int64_t spatial; // flat position within its plane
  int64_t tap;
  int64_t d, h, w;
};

// Walks positions (n, d, h, w) of one side in row-major order, and for each
// those it is linked to on the other.
class Walk {
 public:
  MLX_POOLING_INLINE Walk(const Links& links, int64_t flat)
      : links_(links), plane_(links.other_plane()) {
    auto& [depth, height, width] = links.axes;
    w_ = flat % width.size();
    flat /= width.size();
    h_ = flat % height.size();
    flat /= height.size();
    d_ = flat % depth.size();
    n_ = flat / depth.size();
  }

  MLX_POOLING_INLINE void next() {
    if (++w_ < links_.axes[2].size()) {
      return;
    }
    w_ = 0;
    if (++h_ < links_.axes[1].size()) {
      return;
    }
    h_ = 0;
    if (++d_ < links_.axes[0].size()) {
      return;
    }
    d_ = 0;
    ++n_;
  }

  // First position of this one's plane on the other side.
  MLX_POOLING_INLINE int64_t plane() const {
    return n_ * plane_;
  }

  MLX_POOLING_INLINE int64_t d() const {
    return d_;
  }
  MLX_POOLING_INLINE int64_t h() const {
    return h_;
  }
  MLX_POOLING_INLINE int64_t w() const {
    return w_;
  }

  MLX_POOLING_INLINE bool unlinked() const {
    return depth().count == 0 || height().count == 0 || width().count == 0;
  }

  MLX_POOLING_INLINE int64_t first_tap() const {
    return (depth().tap * links_.kernel_height + height().tap) *
        links_.kernel_width +
        width().tap;
  }

  // Calls visit(Linked) in row-major order.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each(Visit visit) const {
    const Link along_d = depth();
    const Link along_h = height();
    const Link along_w = width();
    auto& [axis_d, axis_h, axis_w] = links_.axes;
    for (int64_t i = 0; i < along_d.count; ++i) {
      auto d = along_d.first + i * axis_d.step;
      auto tap_d = along_d.tap + i * axis_d.tap_step;
      for (int64_t j = 0; j < along_h.count; ++j) {
        auto h = along_h.first + j * axis_h.step;
        auto row = (d * axis_h.other_size + h) * axis_w.other_size;
        auto tap_row =
            (tap_d * links_.kernel_height + along_h.tap + j * axis_h.tap_step) *
            links_.kernel_width;
        for (int64_t k = 0; k < along_w.count; ++k) {
          auto w = along_w.first + k * axis_w.step;
          auto tap = tap_row + along_w.tap + k * axis_w.tap_step;
          visit(Linked{row + w, tap, d, h, w});
        }
      }
    }
  }

 private:
  MLX_POOLING_INLINE const Link& depth() const {
    return links_.axes[0].of[d_];
  }
  MLX_POOLING_INLINE const Link& height() const {
    return links_.axes[1].of[h_];
  }
  MLX_POOLING_INLINE const Link& width() const {
    return links_.axes[2].of[w_];
  }

  const Links& links_;
  int64_t plane_;
  int64_t n_, d_, h_, w_;
};

template <typename A>
MLX_POOLING_INLINE A
divisor_at(const Divisor& divisor, int64_t d, int64_t h, int64_t w) {
  auto& [along_d, along_h, along_w] = divisor.factors;
  return static_cast<A>(along_d[d] * along_h[h] * along_w[w]);
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
