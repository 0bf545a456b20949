#pragma once

#include <vector>

#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// One linked element of the other side.
struct Linked {
  int64_t spatial; // flat position within its plane
  int64_t tap;
  int64_t d, h, w;
};

// A row of them.
struct LinkedRow {
  int64_t spatial; // of its position w = 0
  int64_t tap;     // without the share of w
  int64_t d, h;
};

// One chain of more additions would lose precision.
inline constexpr int64_t kLongestChain = 256;

struct NoEnd {
  MLX_POOLING_INLINE void operator()() const {}
};

// What one window is made of, until the walk goes on.
class Taps {
 public:
  Taps(const std::vector<LinkedRow>& rows, Link along, int64_t step)
      : begin_(rows.data()),
        end_(rows.data() + (along.count > 0 ? rows.size() : 0)),
        along_(along),
        step_(step) {}

  MLX_POOLING_INLINE bool none() const {
    return begin_ == end_;
  }

  // If there is one.
  MLX_POOLING_INLINE int64_t first() const {
    return begin_->tap + along_.tap;
  }

  MLX_POOLING_INLINE int64_t columns() const {
    return along_.count;
  }

  MLX_POOLING_INLINE int64_t count() const {
    return (end_ - begin_) * along_.count;
  }

  // Calls visit(spatial, tap) with the first of each row.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each_row(Visit visit) const {
    for (auto* row = begin_; row != end_; ++row) {
      visit(row->spatial + along_.first, row->tap + along_.tap);
    }
  }

  // Calls visit(at, tap) with where the channels of each begin, in row-major
  // order, and end() after those of each row, or of each chain of a long one.
  // One column follows from the one before, which is faster than
  // Walk::for_each().
  template <bool kInChains = false, typename Visit, typename End = NoEnd>
  MLX_POOLING_INLINE void
  for_each(int64_t channels, Visit visit, End end = {}) const {
    const Link along = along_;
    const auto next_column = step_ * channels;
    for (auto *row = begin_, *last = end_; row != last; ++row) {
      auto at = (row->spatial + along.first) * channels;
      auto tap = row->tap + along.tap;
      int64_t k = 0;
      if constexpr (kInChains) {
        while (k + kLongestChain < along.count) {
          for (auto stop = k + kLongestChain; k < stop; ++k) {
            visit(at, tap + k);
            at += next_column;
          }
          end();
        }
      }
      for (; k < along.count; ++k, at += next_column) {
        visit(at, tap + k);
      }
      end();
    }
  }

 private:
  const LinkedRow* begin_;
  const LinkedRow* end_;
  Link along_;
  int64_t step_;
};

// Walks positions (n, d, h, w) of one side in row-major order, and for each
// those it is linked to on the other. What a row's positions have in common is
// worked out once a row.
class Walk {
 public:
  Walk(const Links& links, int64_t flat)
      : links_(links),
        starts_(
            links.axes[2].starts.empty() ? nullptr
                                         : links.axes[2].starts.data()),
        width_(links.axes[2].size()),
        plane_(links.other_plane()),
        is_row_(links.axes[0].size() * links.axes[1].size() == 1),
        w_(flat % width_) {
    go_to_row(flat / width_);
  }

  MLX_POOLING_INLINE void next() {
    skip(1);
  }

  // `positions` on, at most to the end of the row.
  MLX_POOLING_INLINE void skip(int64_t positions) {
    w_ += positions;
    if (w_ == width_) {
      w_ = 0;
      next_row();
    }
  }

  // As many on as rows have.
  void skip_rows(int64_t rows) {
    if (rows == 1) {
      return next_row();
    }
    auto plane = n_ * links_.axes[0].size() + d_;
    go_to_row(plane * links_.axes[1].size() + h_ + rows);
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
    return rows_.empty() || along_w().count == 0;
  }

  // The spatial position that is visited last: walks over overlapping windows
  // have been to the others before.
  MLX_POOLING_INLINE int64_t newest() const {
    if (unlinked()) {
      return 0;
    }
    return rows_.back().spatial + links_.axes[2].last(w_);
  }

  template <typename Visit>
  MLX_POOLING_INLINE void for_each_linked_row(Visit visit) const {
    for (const LinkedRow& row : rows_) {
      visit(row);
    }
  }

  MLX_POOLING_INLINE int64_t linked_rows() const {
    return static_cast<int64_t>(rows_.size());
  }

  // The first and the last of the linked rows, of which there must be one, and
  // all but the first.
  MLX_POOLING_INLINE int64_t last_row() const {
    return rows_.back().spatial;
  }

  MLX_POOLING_INLINE const LinkedRow& first_row() const {
    return rows_.front();
  }

  template <typename Visit>
  MLX_POOLING_INLINE void for_each_later_row(Visit visit) const {
    for (auto row = rows_.begin() + 1; row != rows_.end(); ++row) {
      visit(*row);
    }
  }

  // Linked positions in a row.
  MLX_POOLING_INLINE int64_t columns() const {
    return along_w().count;
  }

  // Calls visit(spatial, tap) with the first linked position of each row.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each_row(Visit visit) const {
    taps().for_each_row(visit);
  }

  // Of windows.
  MLX_POOLING_INLINE Taps taps() const {
    return {rows_, along_w(), links_.axes[2].step};
  }

  // Calls visit(Linked) in row-major order.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each(Visit visit) const {
    const Link along = along_w();
    const auto step = links_.axes[2].step;
    const auto tap_step = links_.axes[2].tap_step;
    const auto* starts = starts_;
    for (const LinkedRow& row : rows_) {
      for (int64_t k = 0; k < along.count; ++k) {
        auto w = along.first + k * step;
        auto tap = along.tap + (starts ? -starts[w] : k * tap_step);
        visit(Linked{row.spatial + w, row.tap + tap, row.d, row.h, w});
      }
    }
  }

 private:
  void go_to_row(int64_t row) {
    auto depth = links_.axes[0].size();
    auto height = links_.axes[1].size();
    h_ = row % height;
    d_ = row / height % depth;
    n_ = row / height / depth;
    enter_row();
  }

  void next_row() {
    if (++h_ == links_.axes[1].size()) {
      h_ = 0;
      if (++d_ == links_.axes[0].size()) {
        d_ = 0;
        ++n_;
        if (is_row_) { // linked to the same of the next plane
          return;
        }
      }
    } else if (move_down()) {
      return;
    }
    enter_row();
  }

  // Moves what the row before was linked to, if that makes what this one is.
  bool move_down() {
    auto& height = links_.axes[1];
    const Link before = height.of[h_ - 1];
    const Link here = height.of[h_];
    if (here.count != before.count || here.tap != before.tap ||
        !height.starts.empty()) {
      return false;
    }
    auto rows = here.first - before.first;
    for (auto& row : rows_) {
      row.spatial += rows * links_.axes[2].other_size;
      row.h += rows;
    }
    return true;
  }

  void enter_row() {
    auto& [depth, height, width] = links_.axes;
    const Link along_d = depth.of[d_];
    const Link along_h = height.of[h_];
    rows_.clear();
    rows_.reserve(along_d.count * along_h.count);
    for (int64_t i = 0; i < along_d.count; ++i) {
      auto d = along_d.first + i * depth.step;
      auto tap_d = depth.tap(along_d, i, d);
      for (int64_t j = 0; j < along_h.count; ++j) {
        auto h = along_h.first + j * height.step;
        auto tap_h = height.tap(along_h, j, h);
        rows_.push_back(
            {(d * height.other_size + h) * width.other_size,
             tap_d * links_.plane_taps() + tap_h * links_.row_taps(), d, h});
      }
    }
  }

  MLX_POOLING_INLINE Link along_w() const {
    return links_.axes[2].of[w_];
  }

  const Links& links_;
  const int64_t* starts_; // AxisLinks::starts, where no store can change it
  int64_t width_;
  int64_t plane_;
  bool is_row_; // all that there is of a plane
  int64_t n_, d_, h_, w_;
  std::vector<LinkedRow> rows_;
};

template <typename A>
MLX_POOLING_INLINE A
divisor_at(const Divisors& divisors, int64_t d, int64_t h, int64_t w) {
  if (divisors.is_uniform) {
    return static_cast<A>(divisors.of_all);
  }
  auto& [along_d, along_h, along_w] = divisors.factors;
  return static_cast<A>(along_d[d] * along_h[h] * along_w[w]);
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
