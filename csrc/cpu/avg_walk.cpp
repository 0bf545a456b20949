#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/each_window.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/rows_ahead.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The average of a window.
template <typename T, int L>
class AverageOf : public AtWindow<const T> {
 public:
  using Lane = Arithmetic<T>;
  static constexpr int kLanes = L;
  static constexpr bool kHasAlike = has_alike<T, L> && !is_power<T>;
  static constexpr int kMostVectors = 16;

  // Of fewer taps it hardly matters how far apart a position's pieces are read,
  // and more are not to be one chain.
  MLX_POOLING_INLINE static bool may_be_wide(const Taps& taps) {
    constexpr int64_t kLeastTaps = 16;
    return taps.count() >= kLeastTaps && taps.count() <= kLongestChain;
  }

  explicit AverageOf(const AvgTask& task)
      : AtWindow<const T>(static_cast<const T*>(task.from), task.channels),
        average_(task),
        divisors_(task.divisors),
        ahead_(rows_ahead_bytes<T>(task)),
        y_(task.to) {}

  MLX_POOLING_INLINE void go_to(const Walk& walk, int64_t i) {
    AtWindow<const T>::go_to(walk, i);
    divisor_ = divisor_at<Divisor>(divisors_, walk.d(), walk.h(), walk.w());
  }

  template <int U, typename OfWindow>
  MLX_POOLING_INLINE Nothing visit(const OfWindow& taps, int64_t c) const {
    if constexpr (2 * U > kRegisters) {
      sum_up_wide<U>(taps, c);
    } else if (taps.columns() > kLongestChain) {
      visit_long<U>(taps, c);
    } else {
      sum_up<U, false>(taps, c);
    }
    return {};
  }

 private:
  using Divisor = typename Average<T>::Divisor;

  // Registers hold no sums of rows besides.
  template <int U>
  MLX_POOLING_INLINE void sum_up_wide(const Taps& taps, int64_t c) const {
    auto* x = this->plane_ + c;
    Vec<Lane, L> total[U] = {};
    taps.for_each(this->channels_, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
      add(total, x + at);
    });
    store_averages(total, c);
  }

  // Apart from the code for most windows, which are short.
  template <int U, typename OfWindow>
  [[gnu::noinline]] void visit_long(const OfWindow& taps, int64_t c) const {
    sum_up<U, true>(taps, c);
  }

  template <int U, bool kInChains, typename OfWindow>
  MLX_POOLING_INLINE void sum_up(const OfWindow& taps, int64_t c) const {
    auto* x = this->plane_ + c;
    Vec<Lane, L> total[U] = {};
    Vec<Lane, L> of_chain[U] = {};
    taps.template for_each<kInChains>(
        this->channels_,
        [&](int64_t at, int64_t) MLX_POOLING_LAMBDA { add(of_chain, x + at); },
        [&]() MLX_POOLING_LAMBDA {
          for (int u = 0; u < U; ++u) {
            total[u] += of_chain[u];
            of_chain[u] = Vec<Lane, L>{};
          }
        });
    store_averages(total, c);
  }

  template <int U>
  MLX_POOLING_INLINE void add(Vec<Lane, L> (&sums)[U], const T* from) const {
    for (int u = 0; u < U; ++u) {
      fetch_ahead<L>(from + u * L, ahead_);
      sums[u] += average_.template terms<L>(load<L>(from + u * L));
    }
  }

  template <int U>
  MLX_POOLING_INLINE void
  store_averages(const Vec<Lane, L> (&sums)[U], int64_t c) const {
    average_.with_result_type([&]<typename To>(To) MLX_POOLING_LAMBDA {
      auto* y = static_cast<To*>(y_) + this->own_ + c;
      for (int u = 0; u < U; ++u) {
        store<L>(y + u * L, average_.template result<To, L>(sums[u], divisor_));
      }
    });
  }

  Average<T> average_;
  const Divisors& divisors_;
  uintptr_t ahead_;
  void* y_;
  Divisor divisor_{}; // the same for windows that are alike
};

} // namespace

void avg_walk(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      for_each_window(task, begin, end, AverageOf<T, L>(task));
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
