#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/spread.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Of a row of inputs, from the first tap of a group's first window on, in
// vectors: which of the windows' elements each belongs to, and which tap it is
// of that.
template <typename A, int L>
class Spreading {
 public:
  using Tap = OffsetLane<A, uint32_t>;

  explicit Spreading(const Task& task) : task_(task), side_(task.side_by_side) {
    auto channels = task.channels;
    auto period = side_.stride * channels;
    auto step = task.links.axes[2].step;
    for (int64_t v = 0; v * L < side_.windows * period; ++v) {
      auto element = [&](int64_t j) {
        auto i = v * L + j;
        return i / period * channels + i % channels;
      };
      auto& first = firsts_[v] = element(0);
      for (int64_t j = 1; j < L; ++j) {
        first = std::min(first, element(j));
      }
      for (int64_t j = 0; j < L; ++j) {
        auto position = (v * L + j) % period / channels;
        bool is_tap =
            position % step == 0 && position / step < task.links.axes[2].kernel;
        places_[v][j] = element(j) - first;
        taps_[v][j] = is_tap ? Tap(position / step) : kNoTap;
      }
    }
  }

  // The windows' element from where on vector v has what it needs.
  MLX_POOLING_INLINE int64_t first(int64_t v) const {
    return firsts_[v];
  }

  // Which inputs of vector v belong to a window at all.
  MLX_POOLING_INLINE auto are_taps(int64_t v) const {
    return load<L>(taps_[v]) < broadcast<Tap, L>(kNoTap);
  }

  // Which tap each of them is, in a row whose first is `first`.
  MLX_POOLING_INLINE Vec<Tap, L> taps(int64_t v, int64_t first) const {
    return load<L>(taps_[v]) + broadcast<Tap, L>(Tap(first));
  }

  // Of values for each of the windows' elements, from first(v) on, one for each
  // input of vector v.
  MLX_POOLING_INLINE Vec<A, L> spread(int64_t v, Vec<A, L> values) const {
    return permuted<A, L>(values, values, load<L>(places_[v]));
  }
  MLX_POOLING_INLINE Vec<Tap, L> spread_taps(int64_t v, Vec<Tap, L> t) const {
    return permuted<Tap, L>(t, t, load<L>(places_[v]));
  }

  // What a group's windows write in a row.
  struct Run {
    int64_t elements;
    bool all; // may be overwritten that the vectors hold
  };

  MLX_POOLING_INLINE Run
  run(const Walk& walk, int64_t i, int64_t count, int64_t end) const {
    if (!side_.uncut.contains(walk.w())) {
      auto span = (walk.columns() - 1) * task_.links.axes[2].step + 1;
      return {span * task_.channels, false};
    }
    // The next group overwrites what lies behind this one.
    bool is_followed =
        side_.uncut.contains(walk.w() + count) && i + count < end;
    return {count * side_.stride * task_.channels, is_followed};
  }

 private:
  // More than any tap, whatever is added to it.
  static constexpr Tap kNoTap = Tap{1} << 31;

  const Task& task_;
  const SideBySide side_;
  int64_t firsts_[kSpreadVectors];
  Tap places_[kSpreadVectors][L];
  Tap taps_[kSpreadVectors][L];
};

template <int L, typename T>
void spread_to_winners(const MaxTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    using A = Wide<T>;
    using Tap = OffsetLane<A, uint32_t>;
    auto channels = task.channels;
    const Spreading<A, L> spreading(task);
    const auto ahead = rows_ahead_bytes<T>(task);
    auto* dy = static_cast<const T*>(task.from);
    auto* dy_end = static_cast<const T*>(task.from_end);
    auto* offsets = static_cast<const SpreadOffset*>(task.offsets);
    for_each_group(
        task, begin, end,
        [&](const Walk& walk, int64_t i, int64_t count) MLX_POOLING_LAMBDA {
          auto* dx = static_cast<T*>(task.to) + walk.plane() * channels;
          auto run = spreading.run(walk, i, count, end);
          for (int64_t v = 0; v * L < run.elements; ++v) {
            auto at = i * channels + spreading.first(v);
            fetch_ahead<L>(dy + at);
            fetch_ahead<64>(offsets + at);
            auto share = spreading.spread(
                v, sum_of_one<T>(load_wide<L>(dy + at, dy_end)));
            auto winner = spreading.spread_taps(
                v,
                resize<Tap, L>(
                    load_wide<L>(offsets + at, offsets + (dy_end - dy))));
            walk.for_each_row([&](int64_t spatial,
                                  int64_t tap) MLX_POOLING_LAMBDA {
              auto* to = dx + spatial * channels + v * L;
              auto won = winner == spreading.taps(v, tap);
              claim_ahead<L>(to, ahead);
              store_wide<true, L>(
                  to, kept<A, L>(share, won), run.elements - v * L, run.all);
            });
          }
        });
  }
}

template <int L, typename T>
void spread_to_all(const AvgTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    using A = Arithmetic<T>;
    auto channels = task.channels;
    const Spreading<A, L> spreading(task);
    const auto ahead = rows_ahead_bytes<T>(task);
    auto* dy = static_cast<const T*>(task.from);
    auto* dy_end = static_cast<const T*>(task.from_end);
    for_each_group(
        task, begin, end,
        [&](const Walk& walk, int64_t i, int64_t count) MLX_POOLING_LAMBDA {
          A divisor = divisor_at<A>(task.divisor, walk.d(), walk.h(), walk.w());
          auto* dx = static_cast<T*>(task.to) + walk.plane() * channels;
          auto run = spreading.run(walk, i, count, end);
          for (int64_t v = 0; v * L < run.elements; ++v) {
            auto at = i * channels + spreading.first(v);
            auto share = sum_of_one<T>(load_wide<L>(dy + at, dy_end) / divisor);
            auto shares =
                kept<A, L>(spreading.spread(v, share), spreading.are_taps(v));
            walk.for_each_row([&](int64_t spatial, int64_t) MLX_POOLING_LAMBDA {
              auto* to = dx + spatial * channels + v * L;
              claim_ahead<L>(to, ahead);
              store_wide<false, L>(to, shares, run.elements - v * L, run.all);
            });
          }
        });
  }
}

} // namespace

void max_spread_side_by_side(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    spread_to_winners<kGroupLanes<T>, T>(task, begin, end);
  });
}

void avg_spread_side_by_side(const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(task.dtype, [&]<typename T>(T) {
    spread_to_all<kGroupLanes<T>, T>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
