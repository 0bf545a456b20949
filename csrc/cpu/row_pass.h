#pragma once

#include <algorithm>

#include "cpu/links.h"
#include "cpu/memory.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces along the innermost axis, a row at a time. A row's positions are
// `channels` elements each, so that neighbours' channels lie that far apart in
// one flat vector.
template <typename Op>
class RowPass {
 public:
  using Cells = typename Op::Cells;
  using Value = typename Op::Value;

  RowPass(const AxisLinks& links, Range to, int64_t channels, Scratch& scratch)
      : links_(links),
        to_(to),
        channels_(channels),
        from_(linked(links, to)),
        dense_(dense_links(links, channels)),
        by_powers_(dense_ && links.kernel > kLongestDirect) {
    auto extent = dense_extent();
    auto other_pitch = dense_ ? dense_->other_pitch : 1;
    if (!extent.contains(from_.begin * other_pitch)) {
      auto none = ceil_div(extent.begin, other_pitch); // all lie in the padding
      from_ = {none, none};
    }
    first_ = extent.begin;
    padded_ = extent.size();
    row_ = scratch.take<Value>(padded_ * channels);
    if (other_pitch > 1) {
      std::fill(row_, row_ + padded_ * channels, Op::identity());
      read_ = scratch.take<Value>(from_.size() * channels);
    } else { // all but what is read
      read_ = row_ + (from_.begin - first_) * channels;
      std::fill(row_, read_, Op::identity());
      std::fill(
          read_ + from_.size() * channels, row_ + padded_ * channels,
          Op::identity());
    }
    if (by_powers_) {
      power_ = Op::take(scratch, padded_ * channels);
      rest_ = Op::take(scratch, padded_ * channels);
    }
    if (dense_ && dense_->pitch > 1) {
      joined_ = Op::take(scratch, positions() * channels);
    }
  }

  // What reduce() reads, and where it is to be.
  Range from() const {
    return from_;
  }
  Value* row() const {
    return read_;
  }

  void reduce(Cells out, int64_t tap_base) const {
    if (!dense_) {
      return join_links(out, tap_base);
    }
    if (dense_->other_pitch > 1) {
      space_out();
    }
    bool is_thinned = dense_->pitch > 1;
    auto joined = is_thinned ? joined_ : out;
    if (by_powers_) {
      join_powers(joined, tap_base);
    } else {
      join_taps(joined, positions(), links_.kernel, tap_base);
    }
    if (is_thinned) {
      thin_out(out);
    }
    clamp_taps(out, tap_base);
  }

 private:
  static constexpr int kLanes = Op::kLanes;
  static constexpr int64_t kLongestDirect = 6;

  static const Dense* dense_links(const AxisLinks& links, int64_t channels) {
    bool suits = links.origin() || links.in_dense_rows(channels);
    return suits ? &*links.dense : nullptr;
  }

  // Dense positions with a window.
  int64_t positions() const {
    return (to_.size() - 1) * dense_->pitch + 1;
  }

  // All that windows reach.
  Range dense_extent() const {
    if (!dense_) {
      return from_;
    }
    auto begin = to_.begin * dense_->pitch + dense_->origin;
    return {begin, begin + positions() + (links_.kernel - 1) * dense_->step};
  }

  // What was read to where it is in the dense row.
  void space_out() const {
    auto pitch = dense_->other_pitch;
    auto* to = row_ + (from_.begin * pitch - first_) * channels_;
    const auto* from = read_; // where no store can change it
    const auto positions = from_.size();
    with_count<Op::kRare>(channels_, [&](auto channels) MLX_POOLING_LAMBDA {
      for (int64_t i = 0; i < positions; ++i) {
        for_each_lane<kLanes>(
            channels, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
              store<L>(
                  to + (i * pitch * channels + c),
                  load<L>(from + (i * channels + c)));
            });
      }
    });
  }

  // The windows that there are among those of the dense row.
  void thin_out(Cells out) const {
    const auto joined = joined_; // where no store can change it
    const auto pitch = dense_->pitch;
    const auto positions = to_.size();
    with_count<Op::kRare>(channels_, [&](auto channels) MLX_POOLING_LAMBDA {
      for (int64_t o = 0; o < positions; ++o) {
        for_each_lane<kLanes>(
            channels, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
              auto cell =
                  Op::template read<L>(joined + (o * pitch * channels + c));
              Op::template write<L>(out + (o * channels + c), cell);
            });
      }
    });
  }

  void join_links(Cells out, int64_t tap_base) const {
    const auto* row = row_; // where no store can change it
    const auto channels = channels_;
    const auto step = links_.step * channels;
    const auto tap_step = links_.tap_step;
    for (auto o = to_.begin; o < to_.end; ++o) {
      const Link link = links_.of[o];
      const auto* from = row + (link.first - first_) * channels;
      const auto to = out + (o - to_.begin) * channels;
      for_each_lane<kLanes>(
          channels, [=]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
            auto cell = Op::template nothing<L>();
            if (link.count > 0) {
              cell = Op::template tap<L>(from + c, tap_base + link.tap);
            }
            for (int64_t k = 1; k < link.count; ++k) {
              cell = Op::template joined<L>(
                  cell,
                  Op::template tap<L>(
                      from + k * step + c, tap_base + link.tap + k * tap_step));
            }
            Op::template write<L>(to + c, cell);
          });
    }
  }

  // out = each position's first `taps` taps.
  void join_taps(
      Cells out, int64_t positions, int64_t taps, int64_t tap_base) const {
    const auto* row = row_; // where no store can change it
    const auto step = dense_->step * channels_;
    const auto size = positions * channels_;
    with_count<Op::kRare>(taps, [&](auto count) MLX_POOLING_LAMBDA {
      for (int64_t j = 0; j < size; j += kLanes) {
        auto cell = Op::template tap<kLanes>(row + j, tap_base);
        for (int64_t k = 1; k < count; ++k) {
          cell = Op::template joined<kLanes>(
              cell, Op::template tap<kLanes>(row + k * step + j, tap_base + k));
        }
        Op::template write<kLanes>(out + j, cell);
      }
    });
  }

  // power_ holds windows of 4, 8, 16 ... taps in turn, and rest_ what the lower
  // bits of the length make, which follows that in the window.
  void join_powers(Cells out, int64_t tap_base) const {
    auto kernel = links_.kernel;
    auto positions_of = [&](int64_t taps) {
      return padded_ - (taps - 1) * dense_->step;
    };
    int64_t done = kernel % 4;
    if (done > 0) {
      join_taps(rest_, positions_of(done), done, tap_base);
    }
    join_taps(power_, positions_of(4), 4, tap_base);
    for (int64_t power = 4; power <= kernel; power *= 2) {
      if (kernel & power) {
        auto to = done + power == kernel ? out : rest_;
        auto after = done > 0 ? &rest_ : nullptr;
        join_pairs(power_, after, power, positions_of(done + power), to);
        done += power;
      }
      if (2 * power <= kernel) {
        join_pairs(power_, &power_, power, positions_of(2 * power), power_);
      }
    }
  }

  // to = a, and `taps` taps further b, if any.
  void
  join_pairs(Cells a, const Cells* b, int64_t taps, int64_t positions, Cells to)
      const {
    const auto after = (b ? *b : a) + taps * dense_->step * channels_;
    join_cells<Op>(a, b ? &after : nullptr, taps, positions * channels_, to);
  }

  // Where no tap beats the padding, it is the first that is none.
  void clamp_taps(Cells out, int64_t tap_base) const {
    if constexpr (requires { out.taps; }) {
      for (auto o = to_.begin; out.taps && o < to_.end; ++o) {
        auto first = links_.of[o].tap;
        if (first == 0) {
          break;
        }
        auto* taps = out.taps + (o - to_.begin) * channels_;
        using Tap = std::remove_reference_t<decltype(*taps)>;
        for (int64_t c = 0; c < channels_; ++c) {
          auto tap = static_cast<Tap>(taps[c] - static_cast<Tap>(tap_base));
          taps[c] = static_cast<Tap>(tap_base + std::max<int64_t>(tap, first));
        }
      }
    }
  }

  const AxisLinks& links_;
  Range to_;
  int64_t channels_;
  Range from_;
  const Dense* dense_; // none where each window's links are looked up
  bool by_powers_;
  int64_t first_; // position where row_ begins, maybe in the padding
  int64_t padded_;
  Value* row_;
  Value* read_; // row_, or what is yet to be spaced out into it
  Cells power_;
  Cells rest_;
  Cells joined_; // before they are thinned out
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
