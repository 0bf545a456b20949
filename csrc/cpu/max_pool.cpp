#include <type_traits>

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/flips.h"
#include "cpu/kernels.h"
#include "cpu/nan_watch.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The maximum of each window and, unless Tap is void, which tap it is.
template <typename T, typename Tap, int L>
class Maxima {
 public:
  explicit Maxima(const MaxTask& task)
      : task_(task), flip_(broadcast<Flip<T>, L>(flips<T>(task))) {}

  // Inlined next to others, that of bytes took 1.4 times as long.
  [[gnu::noinline]] void run(int64_t begin, int64_t end) const {
    Walk walk(task_.links, begin);
    for (auto i = begin; i < end; ++i, walk.next()) {
      const auto window = window_at(walk, i);
      for_each_block<Lane, L>(
          task_.channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
            if (!reduce<U, Rule::fast>(window, c)) {
              reduce_exactly(walk, i, c, U);
            }
          });
    }
  }

 private:
  using A = Arithmetic<T>;
  static constexpr bool kTaps = !std::is_void_v<Tap>;
  using TapLane = std::conditional_t<kTaps, Tap, uint8_t>;
  using Lane = OffsetLane<A, TapLane>;

  struct Window {
    Taps taps;
    int64_t plane; // where its elements begin
    int64_t index;
  };

  MLX_POOLING_INLINE Window window_at(const Walk& walk, int64_t i) const {
    return {walk.taps(), walk.plane() * task_.channels, i};
  }

  // Of U vectors of channels. False if nothing was stored, since there is a
  // NaN.
  template <int U, Rule kRule>
  MLX_POOLING_INLINE bool reduce(const Window& window, int64_t c) const {
    const auto channels = task_.channels;
    const auto flip = flip_;
    auto* x = static_cast<const T*>(task_.from) + window.plane;
    // An all -inf window keeps its first valid tap; one without valid taps
    // has the top value.
    auto& taps = window.taps;
    auto initial = taps.none() ? TapLane(~TapLane{0}) : TapLane(taps.first());
    Vec<A, L> best[U];
    Vec<TapLane, L> best_tap[U];
    for (int u = 0; u < U; ++u) {
      best[u] = broadcast<A, L>(lowest<A>());
      best_tap[u] = broadcast<TapLane, L>(initial);
    }
    NanWatch<A, L> watch;
    taps.for_each(channels, [&](int64_t at, int64_t tap) MLX_POOLING_LAMBDA {
      auto tap_here = broadcast<TapLane, L>(TapLane(tap));
      for (int u = 0; u < U; ++u) {
        auto* from = x + at + c + u * L;
        fetch_ahead<L>(from);
        auto v = in_register(flipped(load<L>(from), flip));
        if constexpr (kRule == Rule::exact) {
          auto better = replaces<kRule>(v, best[u]);
          best_tap[u] =
              chosen<L>(resize_mask<TapLane, L>(better), tap_here, best_tap[u]);
          best[u] = chosen<L>(better, v, best[u]);
        } else {
          best_tap[u] = chosen_where_larger<TapLane, L>(
              v, best[u], tap_here, best_tap[u]);
          best[u] = larger<A, L>(v, best[u]);
          watch.see(v, u);
        }
      }
    });
    if (kRule == Rule::fast && watch.saw_nan()) {
      return false;
    }
    auto at = window.index * channels + c;
    for (int u = 0; u < U; ++u) {
      auto* y = static_cast<T*>(task_.to) + at + u * L;
      store_exact<L>(y, flipped(best[u], flip));
      if constexpr (kTaps) {
        store_taps(at + u * L, best_tap[u]);
      }
    }
    return true;
  }

  MLX_POOLING_INLINE void store_taps(int64_t at, Vec<TapLane, L> taps) const {
    with_offset_type(
        task_.offsets_dtype, [&]<typename Offset>(Offset) MLX_POOLING_LAMBDA {
          if constexpr (sizeof(Offset) <= sizeof(TapLane)) {
            auto* offsets = static_cast<Offset*>(task_.offsets) + at;
            store<L>(offsets, resize<Offset, L>(taps));
          }
        });
  }

  // Not of the caller's window, which stays in registers.
  [[gnu::cold, gnu::noinline]] void
  reduce_exactly(const Walk& walk, int64_t i, int64_t c, int vectors) const {
    const auto window = window_at(walk, i);
    for (int u = 0; u < vectors; ++u) {
      reduce<1, Rule::exact>(window, c + u * L);
    }
  }

  const MaxTask& task_;
  const Vec<Flip<T>, L> flip_;
};

} // namespace

void max_pool(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
        Maxima<T, void, L>(task).run(begin, end);
      });
      return;
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        constexpr bool is_byte =
            sizeof(Offset) == 1 && compares_to_mask<Vec<Arithmetic<T>, L>>;
        using Tap = std::conditional_t<is_byte, Offset, Lane>;
        Maxima<T, Tap, L>(task).run(begin, end);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
