#pragma once

#include <algorithm>
#include <bit>

#include "cpu/links.h"
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
        method_(choose_method(links, channels)) {
    first_ = links.origin ? to.begin + *links.origin : from_.begin;
    auto last = links.origin
        ? first_ + to.size() + (links.kernel - 1) * links.step
        : from_.end;
    if (from_.begin < first_) { // all windows lie beyond the input
      from_ = {first_, first_};
    }
    padded_ = std::max(last, from_.end) - first_;
    row_ = scratch.take<Value>(padded_ * channels);
    std::fill(row_, row_ + padded_ * channels, Op::identity());
    if (method_ == &RowPass::join_powers) {
      power_ = Op::take(scratch, padded_ * channels);
      rest_ = Op::take(scratch, padded_ * channels);
    }
    if (method_ == &RowPass::join_blocks) {
      slots_ = std::bit_ceil(static_cast<uint64_t>(links.span + links.block));
      rests_ = Op::take(scratch, slots_ * kVectors * kLanes);
      uncut_ = last_of_uncut();
    }
  }

  // What reduce() reads, and where it is to be.
  Range from() const {
    return from_;
  }
  Value* row() const {
    return row_ + (from_.begin - first_) * channels_;
  }

  void reduce(Cells out, int64_t tap_base) const {
    (this->*method_)(out, tap_base);
  }

 private:
  using Method = void (RowPass::*)(Cells out, int64_t tap_base) const;

  static constexpr int kLanes = Op::kLanes;
  // What of a row is joined in registers, where there are several vectors.
  static constexpr int kVectors = 4;
  static constexpr int64_t kLongestDirect = 6;

  static Method choose_method(const AxisLinks& links, int64_t channels) {
    if (links.origin && links.kernel <= kLongestDirect) {
      return &RowPass::join_neighbours;
    }
    if (links.in_blocks() && channels >= kLanes) {
      return &RowPass::join_blocks;
    }
    return links.origin ? &RowPass::join_powers : &RowPass::join_links;
  }

  // Where windows that nothing cuts off end, each at a position of its own: not
  // the last, where windows may end that are cut off.
  Range last_of_uncut() const {
    if (!links_.origin || links_.block < links_.kernel) {
      return {0, 0};
    }
    auto is_cut = [&](int64_t o) { return links_.of[o].count < links_.kernel; };
    auto [begin, end] = to_;
    while (begin < end && is_cut(begin)) {
      ++begin;
    }
    while (begin < end && is_cut(end - 1)) {
      --end;
    }
    auto last = *links_.origin + links_.kernel - 1;
    return {begin + last, end - 1 + last};
  }

  void join_neighbours(Cells out, int64_t tap_base) const {
    join_taps(out, to_.size(), links_.kernel, tap_base);
    clamp_taps(out, tap_base);
  }

  void join_links(Cells out, int64_t tap_base) const {
    for (auto o = to_.begin; o < to_.end; ++o) {
      const Link link = links_.of[o];
      auto* from = row_ + (link.first - first_) * channels_;
      for_each_lane<kLanes>(
          channels_, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
            auto cell = Op::template nothing<L>();
            if (link.count > 0) {
              cell = Op::template tap<L>(from + c, tap_base + link.tap);
            }
            for (int64_t k = 1; k < link.count; ++k) {
              cell = Op::template joined<L>(
                  cell,
                  Op::template tap<L>(
                      from + k * links_.step * channels_ + c,
                      tap_base + link.tap + k * links_.tap_step));
            }
            Op::template write<L>(
                out + ((o - to_.begin) * channels_ + c), cell);
          });
    }
  }

  // out = each position's first `taps` taps.
  void join_taps(
      Cells out, int64_t positions, int64_t taps, int64_t tap_base) const {
    with_count(taps, [&](auto count) MLX_POOLING_LAMBDA {
      for (int64_t j = 0; j < positions * channels_; j += kLanes) {
        auto cell = Op::template tap<kLanes>(row_ + j, tap_base);
        for (int64_t k = 1; k < count; ++k) {
          cell = Op::template joined<kLanes>(
              cell,
              Op::template tap<kLanes>(
                  row_ + k * links_.step * channels_ + j, tap_base + k));
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
      return padded_ - (taps - 1) * links_.step;
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
    clamp_taps(out, tap_base);
  }

  // to = a, and `taps` taps further b, if any.
  void
  join_pairs(Cells a, const Cells* b, int64_t taps, int64_t positions, Cells to)
      const {
    const Cells after = (b ? *b : a) + taps * links_.step * channels_;
    for (int64_t j = 0; j < positions * channels_; j += kLanes) {
      auto cell = Op::template read<kLanes>(a + j);
      if (b) {
        auto next = Op::template read<kLanes>(after + j);
        cell = Op::template joined<kLanes>(
            cell, Op::template moved<kLanes>(next, taps));
      }
      Op::template write<kLanes>(to + j, cell);
    }
  }

  // As ItemPass, with as many channels at a time as registers hold.
  void join_blocks(Cells out, int64_t tap_base) const {
    for_each_block<typename Op::Lane, kLanes, kVectors>(
        channels_, [&]<int U>(std::integral_constant<int, U>, int64_t c) {
          join_columns<U>(c, out, tap_base);
        });
  }

  template <int U>
  struct Vectors {
    MLX_POOLING_INLINE void join(const Vectors& after) {
      for (int u = 0; u < U; ++u) {
        cells[u] = Op::template joined<kLanes>(cells[u], after.cells[u]);
      }
    }

    MLX_POOLING_INLINE void write(Cells to, int64_t taps) const {
      for (int u = 0; u < U; ++u) {
        Op::template write<kLanes>(
            to + u * kLanes, Op::template moved<kLanes>(cells[u], taps));
      }
    }

    typename Op::template Cell<kLanes> cells[U];
  };

  template <int U>
  void join_columns(int64_t c, Cells out, int64_t tap_base) const {
    auto tap = [&](int64_t i) MLX_POOLING_LAMBDA {
      Vectors<U> vectors;
      for (int u = 0; u < U; ++u) {
        vectors.cells[u] = Op::template tap<kLanes>(
            row_ + (i - first_) * channels_ + c + u * kLanes, i);
      }
      return vectors;
    };
    auto slot = [&](int64_t i) MLX_POOLING_LAMBDA {
      return rests_ + (i & (slots_ - 1)) * U * kLanes;
    };
    auto rest = [&](int64_t i) MLX_POOLING_LAMBDA {
      Vectors<U> vectors;
      for (int u = 0; u < U; ++u) {
        vectors.cells[u] = Op::template read<kLanes>(slot(i) + u * kLanes);
      }
      return vectors;
    };
    const auto length = links_.block;
    auto next = to_.begin;
    for (auto block = from_.begin / length * length; block < from_.end;
         block += length) {
      auto begin = std::max(block, from_.begin);
      auto end = std::min(block + length, from_.end);
      auto joined = tap(end - 1);
      joined.write(slot(end - 1), 0);
      for (auto i = end - 2; i >= begin; --i) {
        auto before = tap(i);
        before.join(joined);
        joined = before;
        joined.write(slot(i), 0);
      }
      auto prefix = tap(begin);
      for (auto i = begin; i < end; ++i) {
        if (i > begin) {
          prefix.join(tap(i));
        }
        if (uncut_.contains(i)) {
          auto to = out + ((next++ - to_.begin) * channels_ + c);
          auto first = i - length + 1;
          if (first == block) {
            prefix.write(to, tap_base - first);
          } else {
            auto window = rest(first);
            window.join(prefix);
            window.write(to, tap_base - first);
          }
          continue;
        }
        for (; next < to_.end && links_.last(next) <= i; ++next) {
          const Link& link = links_.of[next];
          auto to = out + ((next - to_.begin) * channels_ + c);
          auto taps = tap_base + link.tap - link.first;
          if (link.count == 0) {
            nothing<U>().write(to, 0);
          } else if (link.first == block) {
            prefix.write(to, taps);
          } else {
            auto window = rest(link.first);
            auto whole = link.first / length * length + length;
            for (; whole < block; whole += length) {
              window.join(rest(whole));
            }
            if (whole == block) {
              window.join(prefix);
            }
            window.write(to, taps);
          }
        }
      }
    }
  }

  template <int U>
  MLX_POOLING_INLINE static Vectors<U> nothing() {
    Vectors<U> vectors;
    for (int u = 0; u < U; ++u) {
      vectors.cells[u] = Op::template nothing<kLanes>();
    }
    return vectors;
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
  Method method_;
  int64_t first_; // position where row_ begins, maybe in the padding
  int64_t padded_;
  Value* row_;
  Cells power_;
  Cells rest_;
  Cells rests_;
  int64_t slots_;
  Range uncut_; // see last_of_uncut
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
