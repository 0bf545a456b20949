#include <algorithm>

#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/rows_ahead.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <int L, typename T>
class GroupedAverages {
 public:
  explicit GroupedAverages(const AvgTask& task)
      : task_(task),
        average_(task),
        taps_(task),
        ahead_(rows_ahead_bytes<T>(task)) {}

  void run(int64_t begin, int64_t end) const {
    Runs(task_, begin, end, [&](const GroupRun& run) {
      run.is_one_group() ? reduce<1>(run, end) : reduce_many(run, end);
    }).visit_all();
  }

 private:
  using A = Arithmetic<T>;
  using Divisor = typename Average<T>::Divisor;
  using OfPart = typename GroupTaps<A, L>::OfPart;

  // At most kMost groups at once: 1 for a run of one.
  template <int kMost>
  MLX_POOLING_INLINE void reduce(const GroupRun& run, int64_t end) const {
    const GroupElements<T, L> groups(task_, run, end);
    const auto window = run.walk.taps();
    const auto taps = taps_[run.part];
    const auto divisors = divisors_of(run);
    with_count(columns(task_, run), [&](auto columns) MLX_POOLING_LAMBDA {
      groups.template for_each<kMost>([&](auto some) MLX_POOLING_LAMBDA {
        reduce(groups, some, window, taps, columns, divisors);
      });
    });
  }

  // Apart from single groups, which have little else in registers.
  [[gnu::noinline]] void reduce_many(const GroupRun& run, int64_t end) const {
    reduce<kMostGroups>(run, end);
  }

  // Of the windows of each group.
  Vec<Divisor, L> divisors_of(const GroupRun& run) const {
    auto& walk = run.walk;
    if (run.part == Part::inner || task_.divisors.is_uniform) {
      return broadcast<Divisor, L>(
          divisor_at<Divisor>(task_.divisors, walk.d(), walk.h(), walk.w()));
    }
    const auto row = task_.links.axes[2].size();
    Divisor divisors[L] = {};
    auto* of_window = divisors;
    for (int64_t i = 0, w = walk.w(); i < run.windows; ++i) {
      auto divisor = divisor_at<Divisor>(task_.divisors, walk.d(), walk.h(), w);
      of_window = std::fill_n(of_window, task_.channels, divisor);
      w = w + 1 < row ? w + 1 : 0;
    }
    return load<L>(divisors);
  }

  template <int G, bool kInside, typename Count>
  MLX_POOLING_INLINE void reduce(
      const GroupElements<T, L>& groups,
      Groups<G, kInside> some,
      Taps window,
      OfPart taps,
      Count columns,
      Vec<Divisor, L> divisors) const {
    Vec<A, L> totals[G];
    std::fill_n(totals, G, broadcast<A, L>(0));
    window.for_each_row([&](int64_t spatial, int64_t) MLX_POOLING_LAMBDA {
      Vec<A, L> low[G];
      Vec<A, L> high[G];
      groups.load(some, spatial, ahead_, low, high);
      for (int64_t k = 0; k < columns; ++k) {
        const auto places = taps.places(k);
        const auto are_inside = taps.are_inside(k);
        for (int g = 0; g < G; ++g) {
          auto elements = permuted<A, L>(low[g], high[g], places);
          auto terms = average_.template terms<L>(elements);
          totals[g] += kept<A, L>(terms, are_inside);
        }
      }
    });
    average_.with_result_type([&]<typename To>(To) MLX_POOLING_LAMBDA {
      Vec<Wide<To>, L> averages[G];
      for (int g = 0; g < G; ++g) {
        averages[g] = average_.template result<To, L>(totals[g], divisors);
      }
      groups.template store<false, To>(some, task_.to, averages);
    });
  }

  const AvgTask& task_;
  const Average<T> average_;
  const GroupTaps<A, L> taps_;
  const uintptr_t ahead_;
};

template <int L, typename T>
void reduce(const AvgTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    GroupedAverages<L, T>(task).run(begin, end);
  }
}

} // namespace

void avg_side_by_side(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    reduce<kGroupLanes<T>, T>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
