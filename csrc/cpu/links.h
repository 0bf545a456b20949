#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cpu/blocks.h"
#include "cpu/inline.h"
#include "cpu/periodic.h"
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

  MLX_POOLING_INLINE Link moved(int64_t positions) const {
    return {first + positions, count, tap};
  }
};

// Positions from `begin` on that are linked to the same, each as one tap more
// than the one before.
struct LinkRun {
  int64_t begin;
  Link link; // of the first
};

// Links by position. A long axis consists of little but those that repeat, each
// moved by `step`, or of a few runs.
class LinkTable : private Periodic<Link> {
 public:
  using Periodic::period;
  using Periodic::repeating;
  using Periodic::size;
  using Periodic::skipped;

  LinkTable() = default;

  template <typename LinkOf>
  LinkTable(
      int64_t size,
      Range repeating,
      int64_t period,
      int64_t step,
      LinkOf link_of)
      : Periodic(
            size,
            repeating,
            period,
            link_of,
            [&](const Link& link, int64_t n) { return link.moved(n * step); }),
        step_(step) {}

  // Of links that do not repeat.
  explicit LinkTable(std::vector<Link> links) : Periodic(std::move(links)) {}

  // Of runs in order, the first of which begins at 0.
  LinkTable(int64_t size, std::vector<LinkRun> runs)
      : Periodic(size), runs_(std::move(runs)) {}

  int64_t step() const {
    return step_;
  }

  MLX_POOLING_INLINE Link operator[](int64_t i) const {
    if (!runs_.empty()) {
      return of_run(i);
    }
    auto [index, periods] = place(i);
    return values()[index].moved(periods * step_);
  }

  MLX_POOLING_INLINE bool has_runs() const {
    return !runs_.empty();
  }
  // Where positions end that are known to be linked to the same as i.
  int64_t end_of_run(int64_t i) const;

 private:
  std::vector<LinkRun>::const_iterator run_after(int64_t i) const;
  Link of_run(int64_t i) const;

  int64_t step_ = 0;
  std::vector<LinkRun> runs_;
};

// Windows of neighbouring positions, of which that of output o starts at
// first + o * stride.
struct Spacing {
  int64_t first;
  int64_t stride;
};

// Links of strided windows as some of those of dense ones: position o is that
// of number o * pitch there, and the others lie `other_pitch` apart, between
// which there is nothing. Dense position i is linked to all from i + origin on,
// in steps of `step`, as many as a kernel has.
struct Dense {
  int64_t origin;
  int64_t step;
  int64_t pitch;
  int64_t other_pitch;

  bool is_strided() const {
    return pitch > 1 || other_pitch > 1;
  }
};

// The links of every position of one axis, so that kernels divide nothing.
struct AxisLinks {
  LinkTable of = {};
  int64_t other_size;
  int64_t step;
  int64_t tap_step;
  int64_t kernel;
  // Unless windows are adaptive, or reach far beyond the row.
  std::optional<Dense> dense = {};
  // Of covers: that of the windows, unless they are adaptive or dilated.
  std::optional<Spacing> spacing = {};
  // Of adaptive covers, whose taps are no progression: Link::tap counts from
  // where each window starts.
  std::vector<int64_t> starts = {};

  // Facts about all links: the largest count, the largest stretch from the
  // first position of one to the last of those up to it, whether some are
  // empty, and whether the others' first and last positions never step back.
  int64_t longest = 0;
  int64_t span = 0;
  bool some_empty = false;
  bool in_order = true;
  // Where large windows are made up of blocks (see ItemPass), about their
  // length; else 0. A window consists of at most `parts` parts.
  int64_t block = 0;
  int64_t parts = 0;
  Blocks blocks = {};

  int64_t size() const {
    return of.size();
  }

  // Positions each of which is linked to what the one before is, `of.step()`
  // further on.
  MLX_POOLING_INLINE Range in_step() const {
    return of.period() == 1 ? of.repeating() : Range{0, 0};
  }

  // Whether to join windows of single elements by blocks too: that costs some
  // operations for each of the others, not one for each tap.
  bool in_blocks() const {
    return block > 0 && span * size() > 4 * other_size + 3 * size();
  }

  // Where neighbours have neighbouring links: position o is linked to `kernel`
  // others from o + origin in steps of `step`, less those beyond the ends.
  std::optional<int64_t> origin() const {
    return dense && !dense->is_strided() ? std::optional(dense->origin)
                                         : std::nullopt;
  }

  // Whether strided rows of so few channels are reduced as dense ones, which
  // fill vectors: at the price of some operations for each dense position.
  bool in_dense_rows(int64_t channels) const {
    constexpr int64_t kFew = 16;
    return dense && dense->is_strided() && channels < kFew &&
        kernel * dense->step >= dense->pitch;
  }

  MLX_POOLING_INLINE int64_t last(int64_t position) const {
    const Link link = of[position];
    return link.count > 0 ? link.first + (link.count - 1) * step : -1;
  }

  // The tap of the k-th position of a link, which is `other`.
  int64_t tap(const Link& link, int64_t k, int64_t other) const {
    return link.tap + (starts.empty() ? k * tap_step : -starts[other]);
  }
};

// All that positions `of` are linked to; never empty, so that there must be a
// position on the other side.
Range linked(const AxisLinks& links, Range of);

// Those from the first to the last that is linked to anything.
Range trimmed(const AxisLinks& links, Range of);

AxisLinks window_links(const Axis& axis);

struct Links {
  static Links windows(const Geometry& geometry); // from outputs to inputs
  static Links covers(const Geometry& geometry);  // from inputs to outputs

  int64_t plane() const {
    return axes[0].size() * axes[1].size() * axes[2].size();
  }

  int64_t other_plane() const {
    return axes[0].other_size * axes[1].other_size * axes[2].other_size;
  }

  int64_t row_taps() const {
    return axes[2].kernel;
  }

  int64_t plane_taps() const {
    return axes[1].kernel * axes[2].kernel;
  }

  std::array<AxisLinks, kMaxSpatialAxes> axes;
};

} // namespace mlx_pooling::cpu
