#include "cpu/average.h"
#include "cpu/dispatch.h"
#include "cpu/each_window.h"
#include "cpu/kernels.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// The average of a window.
template <typename T, int L>
class AverageOf {
 public:
  using Lane = Arithmetic<T>;
  static constexpr int kLanes = L;
  static constexpr bool kHasAlike = has_alike<T, L> && !is_power<T>;

  explicit AverageOf(const AvgTask& task)
      : average_(task),
        divisors_(task.divisor),
        all_(static_cast<const T*>(task.from)),
        y_(static_cast<T*>(task.to)),
        channels_(task.channels) {}

  MLX_POOLING_INLINE void go_to(const Walk& walk, int64_t i) {
    x_ = all_ + walk.plane() * channels_;
    to_ = i * channels_;
    divisor_ = divisor_at<Divisor>(divisors_, walk.d(), walk.h(), walk.w());
  }
  MLX_POOLING_INLINE void next(int64_t step) {
    x_ += step;
    to_ += channels_;
  }

  template <int U, typename Taps>
  MLX_POOLING_INLINE Nothing visit(const Taps& taps, int64_t c) const {
    auto* x = x_ + c;
    Vec<Lane, L> total[U] = {};
    taps.for_each(channels_, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
      for (int u = 0; u < U; ++u) {
        auto* from = x + at + u * L;
        fetch_ahead<L>(from);
        total[u] += average_.template terms<L>(load<L>(from));
      }
    });
    for (int u = 0; u < U; ++u) {
      store<L>(
          y_ + to_ + c + u * L,
          average_.template result<L>(total[u], divisor_));
    }
    return {};
  }

 private:
  using Divisor = typename Average<T>::Divisor;

  Average<T> average_;
  const cpu::Divisor& divisors_;
  const T* all_;
  const T* x_ = nullptr; // the window's plane
  T* y_;
  int64_t to_ = 0; // from there to the window's
  int64_t channels_;
  Divisor divisor_{}; // the same for windows that are alike
};

} // namespace

void avg_pool(const AvgTask& task, int64_t begin, int64_t end) {
  with_averaged_type(task.dtype, task.exponent, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      for_each_window(task, begin, end, AverageOf<T, L>(task));
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
