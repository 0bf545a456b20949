#include <algorithm>
#include <type_traits>

#include "cpu/compare.h"
#include "cpu/compared.h"
#include "cpu/dispatch.h"
#include "cpu/each_window.h"
#include "cpu/half_extremes.h"
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
        compared_(task) {}

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
            auto v = in_register(compared_.template read<L>(from));
            auto cell = Op::template moved<L>(Op::template of<L>(v), tap);
            best[u] = Op::template joined<L>(best[u], cell);
            if constexpr (kRule == Rule::fast) {
              watch.see(v, u);
            }
          }
        });
    for (int u = 0; u < U; ++u) {
      auto to = this->own_ + c + u * L;
      auto bits = compared_.template stored<L>(best[u].value);
      std::memcpy(y_ + to, &bits, sizeof(bits));
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
  Compared<T> compared_;
};

// That of half floats, without taps.
template <typename T, int L>
class HalfMaximum : public AtWindow<const T> {
 public:
  // Vectors of as many lanes as floats have are visited in the same blocks.
  using Lane =
      std::conditional_t<(L > kFullLanes<float>), Arithmetic<T>, float>;
  static constexpr int kLanes = L;
  static constexpr bool kHasAlike = has_alike<T, L>;

  explicit HalfMaximum(const MaxTask& task)
      : AtWindow<const T>(static_cast<const T*>(task.from), task.channels),
        y_(static_cast<T*>(task.to)),
        ahead_(rows_ahead_bytes<T>(task)),
        minimum_(task.minimum) {}

  template <int U, typename Taps>
  MLX_POOLING_INLINE Nothing visit(const Taps& taps, int64_t c) const {
    auto* x = this->plane_ + c;
    const HalfExtremes<T, L> none(minimum_);
    HalfExtremes<T, L> extremes[U];
    std::fill_n(extremes, U, none);
    taps.for_each(this->channels_, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
      for (int u = 0; u < U; ++u) {
        auto* from = x + at + u * L;
        fetch_ahead<L>(from, ahead_);
        extremes[u].join(load<L>(from));
      }
    });
    for (int u = 0; u < U; ++u) {
      auto bits = minimum_ ? extremes[u].minimum() : extremes[u].maximum();
      std::memcpy(y_ + this->own_ + c + u * L, &bits, sizeof(bits));
    }
    return {};
  }

 private:
  T* y_;
  uintptr_t ahead_;
  bool minimum_;
};

// Fewer half floats are as fast as floats.
constexpr int kLeastHalves = 8;

// As many lanes, at most L, as channels fill.
template <int L, typename Visit>
void with_half_lanes(int64_t channels, Visit visit) {
  if constexpr (L > kLeastHalves) {
    if (channels < L) {
      return with_half_lanes<L / 2>(channels, visit);
    }
  }
  visit(Lanes<L>{});
}

template <typename T>
void walk_without_taps(const MaxTask& task, int64_t begin, int64_t end) {
  if constexpr (is_half<T>) {
    if (task.channels >= kLeastHalves) {
      using Bits = Ordered<T>;
      return with_half_lanes<kFullLanes<Bits>>(
          task.channels, [&]<int L>(Lanes<L>) {
            for_each_window(task, begin, end, HalfMaximum<Bits, L>(task));
          });
    }
  }
  with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
    if constexpr (!is_half<T> || L < kLeastHalves) {
      for_each_window(task, begin, end, Maximum<T, void, L>(task));
    }
  });
}

template <typename T>
void walk_with_taps(const MaxTask& task, int64_t begin, int64_t end) {
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
}

} // namespace

void max_walk(const MaxTask& task, int64_t begin, int64_t end) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    task.offsets ? walk_with_taps<T>(task, begin, end)
                 : walk_without_taps<T>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
