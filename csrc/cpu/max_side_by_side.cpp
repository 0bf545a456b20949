#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/flips.h"
#include "cpu/group.h"
#include "cpu/kernels.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The bits to flip once an element is widened, which repeats its highest bit.
template <typename T>
Flip<Wide<T>> wide_flips(const MaxTask& task) {
  return std::make_signed_t<Flip<T>>(flips<T>(task));
}

// The maximum of each window and, unless Offset is void, which tap it is.
template <typename T, typename Offset, int L>
class GroupedMaxima {
 public:
  explicit GroupedMaxima(const MaxTask& task)
      : task_(task),
        flip_(broadcast<Flip<A>, L>(wide_flips<T>(task))),
        places_(task),
        ahead_(rows_ahead_bytes<T>(task)) {}

  void run(int64_t begin, int64_t end) const {
    for_each_group(
        task_, begin, end,
        [&](const Walk& walk, int64_t i, int64_t count) MLX_POOLING_LAMBDA {
          bool all = (end - i) * task_.channels >= L;
          if (!reduce<Rule::fast>(walk, i, count, all)) {
            reduce_exactly(walk, i, count, all);
          }
        });
  }

 private:
  using A = Wide<T>;
  using Tap = OffsetLane<A, uint32_t>;
  static constexpr bool kOffsets = !std::is_void_v<Offset>;

  // False if nothing was stored, since there is a NaN nearby.
  template <Rule kRule>
  MLX_POOLING_INLINE bool
  reduce(const Walk& walk, int64_t i, int64_t count, bool all) const {
    const auto channels = task_.channels;
    const auto flip = flip_;
    auto* end = static_cast<const T*>(task_.from_end);
    auto* x = static_cast<const T*>(task_.from) + walk.plane() * channels;
    auto best = broadcast<A, L>(lowest<Arithmetic<T>>());
    // One without valid taps has the top value.
    const auto window = walk.taps();
    auto best_tap =
        broadcast<Tap, L>(window.none() ? ~Tap{0} : Tap(window.first()));
    NanWatch<A, L> watch;
    with_count(walk.columns(), [&](auto taps) MLX_POOLING_LAMBDA {
      walk.for_each_row([&](int64_t spatial, int64_t tap) MLX_POOLING_LAMBDA {
        auto* from = x + spatial * channels;
        fetch_ahead<L>(from, ahead_);
        fetch_ahead<L>(from + L, ahead_);
        auto low = flipped(load_wide<L>(from, end), flip);
        auto high = flipped(load_wide<L>(from + L, end), flip);
        if constexpr (kRule == Rule::fast) {
          watch.see(low, 0);
          watch.see(high, 1);
        }
        for (int64_t k = 0; k < taps; ++k) {
          auto v = permuted<A, L>(low, high, places_[k]);
          auto better = replaces<kRule>(v, best);
          if constexpr (kOffsets) {
            best_tap = chosen<L>(
                resize_mask<Tap, L>(better), broadcast<Tap, L>(Tap(tap + k)),
                best_tap);
          }
          best = kRule == Rule::fast ? larger<A, L>(v, best)
                                     : chosen<L>(better, v, best);
        }
      });
    });
    if (kRule == Rule::fast && watch.saw_nan()) {
      return false;
    }
    auto at = i * channels;
    auto* y = static_cast<T*>(task_.to) + at;
    store_wide<true, L>(y, flipped(best, flip), count * channels, all);
    if constexpr (kOffsets) {
      auto* offsets = static_cast<Offset*>(task_.offsets) + at;
      auto taps = bits_as<Vec<Wide<Offset>, L>>(resize<uint32_t, L>(best_tap));
      store_wide<true, L>(offsets, taps, count * channels, all);
    }
    return true;
  }

  [[gnu::cold, gnu::noinline]] void
  reduce_exactly(const Walk& walk, int64_t i, int64_t count, bool all) const {
    reduce<Rule::exact>(walk, i, count, all);
  }

  const MaxTask& task_;
  const Vec<Flip<A>, L> flip_;
  const GroupPlaces<A, L> places_;
  const uintptr_t ahead_;
};

template <int L, typename T, typename Offset>
void reduce(const MaxTask& task, int64_t begin, int64_t end) {
  if constexpr (L > 0) {
    GroupedMaxima<T, Offset, L>(task).run(begin, end);
  }
}

} // namespace

int bytes_side_by_side() {
  return kPermutedBytes;
}

void max_side_by_side(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      return reduce<kGroupLanes<T>, T, void>(task, begin, end);
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      reduce<kGroupLanes<T>, T, Offset>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
