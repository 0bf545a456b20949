#include <type_traits>

#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/each_window.h"
#include "cpu/flips.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/reduce.h"
#include "cpu/rows_ahead.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The maximum of a window and, unless Tap is void, which tap it is: one of 256
// if offsets are bytes.
template <typename T, typename Tap, int L, bool kByteOffsets = true>
class Maximum : public AtWindow<const T> {
 private:
  using A = Arithmetic<T>;
  using TapLane = typename Max<A, Tap, Rule::fast>::Tap;

 public:
  using Lane = OffsetLane<A, TapLane>;
  static constexpr int kLanes = L;
  static constexpr bool kHasAlike = has_alike<T, L> && kByteOffsets;

  explicit Maximum(const MaxTask& task)
      : AtWindow<const T>(static_cast<const T*>(task.from), task.channels),
        y_(static_cast<T*>(task.to)),
        offsets_(task.offsets),
        offsets_dtype_(task.offsets_dtype),
        ahead_(rows_ahead_bytes<T>(task)),
        flip_(broadcast<Flip<T>, L>(flips<T>(task))) {}

  // Wrong if it has seen a NaN.
  template <int U, typename Taps>
  MLX_POOLING_INLINE NanWatch<A, L, U>
  visit(const Taps& taps, int64_t c) const {
    return reduce<U, Rule::fast>(taps, c);
  }

  template <typename Taps>
  [[gnu::cold, gnu::noinline]] void
  visit_exactly(const Taps& taps, int64_t c, int vectors) const {
    for (int u = 0; u < vectors; ++u) {
      reduce<1, Rule::exact>(taps, c + u * L);
    }
  }

 private:
  template <int U, Rule kRule, typename Taps>
  MLX_POOLING_INLINE NanWatch<A, L, U>
  reduce(const Taps& taps, int64_t c) const {
    using Op = Max<A, Tap, kRule>;
    auto* x = this->plane_ + c;
    // An all -inf window keeps its first valid tap; one without valid taps
    // has the top value.
    auto initial = taps.none() ? -1 : taps.first();
    typename Op::template Cell<L> best[U];
    for (auto& cell : best) {
      cell = Op::template moved<L>(Op::template nothing<L>(), initial);
    }
    NanWatch<A, L, U> watch;
    taps.for_each(
        this->channels_, [&](int64_t at, int64_t tap) MLX_POOLING_LAMBDA {
          for (int u = 0; u < U; ++u) {
            auto* from = x + at + u * L;
            fetch_ahead<L>(from, ahead_);
            auto v = in_register(flipped(load<L>(from), flip_));
            auto cell = Op::template moved<L>(Op::template of<L>(v), tap);
            best[u] = Op::template joined<L>(best[u], cell);
            if constexpr (kRule == Rule::fast) {
              watch.see(v, u);
            }
          }
        });
    for (int u = 0; u < U; ++u) {
      auto to = this->own_ + c + u * L;
      store_exact<L>(y_ + to, flipped(best[u].value, flip_));
      if constexpr (Op::kTaps) {
        store_taps(to, best[u].tap);
      }
    }
    return watch;
  }

  MLX_POOLING_INLINE void store_taps(int64_t to, Vec<TapLane, L> taps) const {
    with_offset_type(
        offsets_dtype_, [&]<typename Offset>(Offset) MLX_POOLING_LAMBDA {
          if constexpr (sizeof(Offset) <= sizeof(TapLane)) {
            auto* offsets = static_cast<Offset*>(offsets_) + to;
            store<L>(offsets, resize<Offset, L>(taps));
          }
        });
  }

  T* y_;
  void* offsets_;
  Val offsets_dtype_;
  uintptr_t ahead_;
  Vec<Flip<T>, L> flip_;
};

} // namespace

void max_walk(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
        for_each_window(task, begin, end, Maximum<T, void, L>(task));
      });
      return;
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        constexpr bool is_byte =
            sizeof(Offset) == 1 && compares_to_mask<Vec<Arithmetic<T>, L>>;
        using Tap = std::conditional_t<is_byte, Offset, Lane>;
        constexpr bool has_bytes = sizeof(Offset) == 1;
        Maximum<T, Tap, L, has_bytes> maximum(task);
        for_each_window(task, begin, end, maximum);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
