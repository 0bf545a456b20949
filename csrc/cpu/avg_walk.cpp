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

  template <int U, typename Taps>
  MLX_POOLING_INLINE Nothing visit(const Taps& taps, int64_t c) const {
    if (taps.columns() > kLongestChain) {
      visit_long<U>(taps, c);
    } else {
      sum_up<U, false>(taps, c);
    }
    return {};
  }

 private:
  using Divisor = typename Average<T>::Divisor;

  // Apart from the code for most windows, which are short.
  template <int U, typename Taps>
  [[gnu::noinline]] void visit_long(const Taps& taps, int64_t c) const {
    sum_up<U, true>(taps, c);
  }

  template <int U, bool kInChains, typename Taps>
  MLX_POOLING_INLINE void sum_up(const Taps& taps, int64_t c) const {
    auto* x = this->plane_ + c;
    Vec<Lane, L> total[U] = {};
    Vec<Lane, L> of_chain[U] = {};
    taps.template for_each<kInChains>(
        this->channels_,
        [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
          for (int u = 0; u < U; ++u) {
            auto* from = x + at + u * L;
            fetch_ahead<L>(from, ahead_);
            of_chain[u] += average_.template terms<L>(load<L>(from));
          }
        },
        [&]() MLX_POOLING_LAMBDA {
          for (int u = 0; u < U; ++u) {
            total[u] += of_chain[u];
            of_chain[u] = Vec<Lane, L>{};
          }
        });
    average_.with_result_type([&]<typename To>(To) MLX_POOLING_LAMBDA {
      auto* y = static_cast<To*>(y_) + this->own_ + c;
      for (int u = 0; u < U; ++u) {
        store<L>(
            y + u * L, average_.template result<To, L>(total[u], divisor_));
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
