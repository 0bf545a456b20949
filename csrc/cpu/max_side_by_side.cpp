#include <type_traits>

#include "cpu/compare.h"
#include "cpu/compared.h"
#include "cpu/dispatch.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/rows_ahead.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The bits to flip once an element is widened, which repeats its highest bit.
template <typename T>
Flip<Wide<T>> wide_flips(const MaxTask& task) {
  return std::make_signed_t<Flip<T>>(flips<T>(task));
}

// The maximum of each window and, with taps, which of them it is.
template <typename T, bool kTaps, int L>
class GroupedMaxima {
 public:
  explicit GroupedMaxima(const MaxTask& task)
      : task_(task),
        flip_(broadcast<Flip<A>, L>(wide_flips<T>(task))),
        taps_(task),
        ahead_(rows_ahead_bytes<T>(task)) {}

  void run(int64_t begin, int64_t end) const {
    Runs(task_, begin, end, [&](const GroupRun& run) {
      bool is_done = run.is_one_group() ? reduce<Rule::fast, 1>(run, end)
                                        : reduce_many(run, end);
      if (std::is_floating_point_v<A> && !is_done) {
        reduce_exactly(run, end);
      }
    }).visit_all();
  }

 private:
  using A = Wide<T>;
  using Tap = typename GroupTaps<A, L>::Lane;
  using OfPart = typename GroupTaps<A, L>::OfPart;
  using Watch = NanWatch<A, L>;

  // At most kMost groups at once: 1 for a run of one. False if there is a NaN
  // nearby that the rule is not for.
  template <Rule kRule, int kMost>
  MLX_POOLING_INLINE bool reduce(const GroupRun& run, int64_t end) const {
    constexpr bool kRare = kRule == Rule::exact;
    const GroupElements<T, L> groups(task_, run, end);
    const auto window = run.walk.taps();
    const auto taps = taps_[run.part];
    Watch watch;
    with_count<kRare>(
        columns(task_, run), [&](auto columns) MLX_POOLING_LAMBDA {
          groups.template for_each<kMost>([&](auto some) MLX_POOLING_LAMBDA {
            reduce<kRule>(groups, some, window, taps, columns, watch);
          });
        });
    return kRare || !watch.saw_nan();
  }

  // Apart from single groups, which have little else in registers.
  [[gnu::noinline]] bool reduce_many(const GroupRun& run, int64_t end) const {
    return reduce<Rule::fast, kMostGroups>(run, end);
  }

  [[gnu::cold, gnu::noinline]] void
  reduce_exactly(const GroupRun& run, int64_t end) const {
    reduce<Rule::exact, kMostGroups>(run, end);
  }

  template <Rule kRule, int G, bool kInside, typename Count>
  MLX_POOLING_INLINE void reduce(
      const GroupElements<T, L>& groups,
      Groups<G, kInside> some,
      Taps window,
      OfPart taps,
      Count columns,
      Watch& watch) const {
    const auto flip = flip_;
    Vec<A, L> best[G];
    Vec<Tap, L> best_tap[G];
    std::fill_n(best, G, broadcast<A, L>(lowest<Arithmetic<T>>()));
    // One without valid taps has the top value.
    std::fill_n(
        best_tap, G,
        window.none() ? broadcast<Tap, L>(~Tap{0})
                      : taps.taps(0, window.first()));
    window.for_each_row([&](int64_t spatial, int64_t tap) MLX_POOLING_LAMBDA {
      Vec<A, L> low[G];
      Vec<A, L> high[G];
      groups.load(some, spatial, ahead_, low, high);
      for (int g = 0; g < G; ++g) {
        low[g] = flipped(low[g], flip);
        high[g] = flipped(high[g], flip);
        if constexpr (kRule == Rule::fast) {
          watch.see(low[g], 2 * g);
          watch.see(high[g], 2 * g + 1);
        }
      }
      for (int64_t k = 0; k < columns; ++k) {
        const auto places = taps.places(k);
        const auto taps_here = taps.taps(k, tap);
        for (int g = 0; g < G; ++g) {
          auto v = permuted<A, L>(low[g], high[g], places);
          auto better = replaces<kRule>(v, best[g]);
          if constexpr (kTaps) {
            best_tap[g] =
                chosen<L>(resize_mask<Tap, L>(better), taps_here, best_tap[g]);
          }
          best[g] = kRule == Rule::fast ? larger<A, L>(v, best[g])
                                        : chosen<L>(better, v, best[g]);
        }
      }
    });
    for (auto& value : best) {
      value = flipped(value, flip);
    }
    groups.template store<true, T>(some, task_.to, best);
    if constexpr (kTaps) {
      with_offset_type(
          task_.offsets_dtype, [&]<typename Offset>(Offset) MLX_POOLING_LAMBDA {
            Vec<Wide<Offset>, L> taps_of[G];
            for (int g = 0; g < G; ++g) {
              taps_of[g] = bits_as<Vec<Wide<Offset>, L>>(
                  resize<uint32_t, L>(best_tap[g]));
            }
            groups.template store<true, Offset>(some, task_.offsets, taps_of);
          });
    }
  }

  const MaxTask& task_;
  const Vec<Flip<A>, L> flip_;
  const GroupTaps<A, L> taps_;
  const uintptr_t ahead_;
};

template <int L, typename T, bool kTaps>
void reduce(const MaxTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    GroupedMaxima<T, kTaps, L>(task).run(begin, end);
  }
}

} // namespace

int bytes_side_by_side() {
  return kPermutedBytes;
}

void max_side_by_side(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    task.offsets ? reduce<kGroupLanes<T>, T, true>(task, begin, end)
                 : reduce<kGroupLanes<T>, T, false>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
