#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <int L, typename T>
class GroupedAverages {
 public:
  explicit GroupedAverages(const AvgTask& task)
      : task_(task),
        average_(task),
        places_(task),
        ahead_(rows_ahead_bytes<T>(task)) {}

  void run(int64_t begin, int64_t end) const {
    for_each_run(
        task_, begin, end, [&](const GroupRun& run) MLX_POOLING_LAMBDA {
          if (run.groups > 1) {
            reduce_many(run, end);
          } else {
            reduce<1>(run, end);
          }
        });
  }

 private:
  using A = Arithmetic<T>;

  // At most kMost groups at once: 1 for a run of one.
  template <int kMost>
  MLX_POOLING_INLINE void reduce(const GroupRun& run, int64_t end) const {
    const GroupElements<T, L> groups(task_, run, end);
    with_count(run.walk.columns(), [&](auto taps) MLX_POOLING_LAMBDA {
      groups.template for_each<kMost>([&](auto some) MLX_POOLING_LAMBDA {
        reduce(groups, some, run.walk, taps);
      });
    });
  }

  // Apart from single groups, which have little else in registers.
  [[gnu::noinline]] void reduce_many(const GroupRun& run, int64_t end) const {
    reduce<kMostGroups>(run, end);
  }

  template <int G, bool kInside, typename Count>
  MLX_POOLING_INLINE void reduce(
      const GroupElements<T, L>& groups,
      Groups<G, kInside> some,
      const Walk& walk,
      Count taps) const {
    Vec<A, L> totals[G];
    std::fill_n(totals, G, broadcast<A, L>(0));
    walk.for_each_row([&](int64_t spatial, int64_t) MLX_POOLING_LAMBDA {
      Vec<A, L> low[G];
      Vec<A, L> high[G];
      groups.load(some, spatial, ahead_, low, high);
      for (int64_t k = 0; k < taps; ++k) {
        const auto places = places_[k];
        for (int g = 0; g < G; ++g) {
          auto elements = permuted<A, L>(low[g], high[g], places);
          totals[g] += average_.template terms<L>(elements);
        }
      }
    });
    auto divisor = divisor_at<typename Average<T>::Divisor>(
        task_.divisor, walk.d(), walk.h(), walk.w());
    Vec<A, L> averages[G];
    for (int g = 0; g < G; ++g) {
      averages[g] = average_.template result<L>(totals[g], divisor);
    }
    groups.template store<false, T>(some, task_.to, averages);
  }

  const AvgTask& task_;
  const Average<T> average_;
  const GroupPlaces<A, L> places_;
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
