#include <algorithm>
#include <vector>

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/rows_ahead.h"
#include "cpu/spread.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Inputs in one vector: those of a row from a group's first tap on.
template <typename A, int L>
struct Inputs {
  using Tap = OffsetLane<A, uint32_t>;
  // More than any tap, whatever is added to it.
  static constexpr Tap kBetweenTaps = Tap{1} << 31;

  // Of values for the windows' elements from `from` on, that of each input.
  MLX_POOLING_INLINE Vec<A, L> spread(Vec<A, L> values) const {
    return permuted<A, L>(values, values, places);
  }
  MLX_POOLING_INLINE Vec<Tap, L> spread_taps(Vec<Tap, L> t) const {
    return permuted<Tap, L>(t, t, places);
  }

  MLX_POOLING_INLINE auto are_taps() const {
    return taps < broadcast<Tap, L>(kBetweenTaps);
  }

  // Which of them a window's tap is, in a row whose first is `first`.
  MLX_POOLING_INLINE auto are(Vec<Tap, L> tap, int64_t first) const {
    return tap == taps + broadcast<Tap, L>(Tap(first));
  }

  int64_t from; // of the group's windows' elements
  int64_t to;   // of the row's
  Vec<Tap, L> places;
  Vec<Tap, L> taps;
};

// All those of a group, in vectors of which the last may overlap others.
template <typename A, int L>
class Spreading {
 public:
  explicit Spreading(const Task& task)
      : task_(task),
        side_(task.side_by_side),
        period_(side_.stride * task.channels),
        elements_(side_.windows * period_) {
    for (int64_t v = 0; v * L < elements_; ++v) {
      auto first = std::max<int64_t>(0, std::min(v * L, elements_ - L));
      inputs_.push_back(inputs_from(first));
    }
  }

  // Calls visit(inputs, count, from, to) for all vectors of a run's groups, of
  // which the first `count` lanes are theirs: with where the windows' elements
  // begin, and the inputs where a row would with its plane.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each(const GroupRun& run, Visit visit) const {
    bool is_uncut = side_.uncut.contains(run.walk.w());
    if (is_uncut && run.windows == side_.windows && elements_ >= L) {
      for (const auto& inputs : inputs_) {
        for_each_group(run, inputs, AllOf<L>{}, visit);
      }
      return;
    }
    auto span = (run.walk.columns() - 1) * task_.links.axes[2].step + 1;
    auto elements = is_uncut ? run.windows * period_ : span * task_.channels;
    for (const auto& inputs : inputs_) {
      if (inputs.to < elements) {
        auto count = std::min<int64_t>(L, elements - inputs.to);
        for_each_group(run, inputs, count, visit);
      }
    }
  }

 private:
  using Tap = typename Inputs<A, L>::Tap;

  template <typename Count, typename Visit>
  MLX_POOLING_INLINE void for_each_group(
      const GroupRun& run,
      const Inputs<A, L>& of_each,
      Count count,
      const Visit& visit) const {
    const auto inputs = of_each; // where no store can change it
    const auto channels = task_.channels;
    auto from = run.i * channels + inputs.from;
    auto to = run.walk.plane() * channels + inputs.to;
    for (int64_t g = 0; g < run.groups; ++g) {
      visit(inputs, count, from, to);
      from += run.windows * channels;
      to += run.next * channels;
    }
  }

  Inputs<A, L> inputs_from(int64_t to) const {
    auto channels = task_.channels;
    auto& width = task_.links.axes[2];
    auto element = [&](int64_t i) {
      return i / period_ * channels + i % channels;
    };
    auto from = element(to);
    for (int64_t j = 1; j < L; ++j) {
      from = std::min(from, element(to + j));
    }
    Tap places[L];
    Tap taps[L];
    for (int64_t j = 0; j < L; ++j) {
      auto position = (to + j) % period_ / channels;
      auto tap = position / width.step;
      bool is_tap = position % width.step == 0 && tap < width.kernel;
      places[j] = element(to + j) - from;
      taps[j] = is_tap ? Tap(tap) : Inputs<A, L>::kBetweenTaps;
    }
    return {from, to, load<L>(places), load<L>(taps)};
  }

  const Task& task_;
  const SideBySide side_;
  int64_t period_; // elements from one window to the next
  int64_t elements_;
  std::vector<Inputs<A, L>> inputs_;
};

template <int L, typename T>
void spread_to_winners(const MaxTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    using A = Wide<T>;
    using Tap = OffsetLane<A, uint32_t>;
    const auto channels = task.channels;
    const Spreading<A, L> spreading(task);
    const auto ahead = rows_ahead_bytes<T>(task);
    auto* dx = static_cast<T*>(task.to);
    auto* dy = static_cast<const T*>(task.from);
    auto* dy_end = static_cast<const T*>(task.from_end);
    auto* offsets = static_cast<const SpreadOffset*>(task.offsets);
    auto* offsets_end = offsets + (dy_end - dy);
    Runs(task, begin, end, [&](const GroupRun& run) {
      const auto taps = run.walk.taps();
      spreading.for_each(
          run,
          [&](const auto& inputs, auto count, int64_t from,
              int64_t to) MLX_POOLING_LAMBDA {
            fetch_ahead<L>(dy + from);
            fetch_ahead<kLineBytes>(offsets + from);
            auto share =
                inputs.spread(sum_of_one<T>(load_wide<L>(dy + from, dy_end)));
            auto winner = inputs.spread_taps(
                resize<Tap, L>(load_wide<L>(offsets + from, offsets_end)));
            taps.for_each_row(
                [&](int64_t spatial, int64_t tap) MLX_POOLING_LAMBDA {
                  auto* row = dx + to + spatial * channels;
                  auto won = inputs.are(winner, tap);
                  claim_ahead<L>(row, ahead);
                  store_wide<true, L>(row, kept<A, L>(share, won), count);
                });
          });
    }).visit_all();
  }
}

template <int L, typename T>
void spread_to_all(const AvgTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    using A = Arithmetic<T>;
    const auto channels = task.channels;
    const Spreading<A, L> spreading(task);
    const auto ahead = rows_ahead_bytes<T>(task);
    auto* dx = static_cast<T*>(task.to);
    auto* dy = static_cast<const T*>(task.from);
    auto* dy_end = static_cast<const T*>(task.from_end);
    Runs(task, begin, end, [&](const GroupRun& run) {
      const auto taps = run.walk.taps();
      const auto divisor = divisor_at<A>(
          task.divisors, run.walk.d(), run.walk.h(), run.walk.w());
      spreading.for_each(
          run,
          [&](const auto& inputs, auto count, int64_t from,
              int64_t to) MLX_POOLING_LAMBDA {
            auto share =
                sum_of_one<T>(load_wide<L>(dy + from, dy_end) / divisor);
            auto shares = kept<A, L>(inputs.spread(share), inputs.are_taps());
            taps.for_each_row([&](int64_t spatial, int64_t) MLX_POOLING_LAMBDA {
              auto* row = dx + to + spatial * channels;
              claim_ahead<L>(row, ahead);
              store_wide<false, L>(row, shares, count);
            });
          });
    }).visit_all();
  }
}

} // namespace

void max_scatter_spread_side_by_side(
    const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    spread_to_winners<kGroupLanes<T>, T>(task, begin, end);
  });
}

void avg_grad_spread_side_by_side(
    const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(task.dtype, [&]<typename T>(T) {
    spread_to_all<kGroupLanes<T>, T>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
