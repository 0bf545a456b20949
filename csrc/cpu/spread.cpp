#include "cpu/spread.h"
#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/each_window.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// What gets shares of a window's cotangents: all of its inputs.
template <typename T, int L>
class Spread : public AtWindow<T> {
 public:
  static constexpr int kLanes = L;
  static constexpr bool kHasAlike = has_alike<T, L>;

  explicit Spread(const Task& task)
      : AtWindow<T>(static_cast<T*>(task.to), task.channels),
        dy_(static_cast<const T*>(task.from)),
        around_caches_(task.around_caches) {}

 protected:
  template <typename Bits>
  MLX_POOLING_INLINE void store_share(int64_t to, const Bits& bits) const {
    store_result(this->plane_ + to, bits, kAheadBytes, around_caches_);
  }

  const T* dy_;

 private:
  bool around_caches_;
};

template <typename T, int L>
class SpreadToWinners : public Spread<T, L> {
 public:
  using Lane = OffsetLane<Arithmetic<T>, SpreadOffset>;

  explicit SpreadToWinners(const MaxTask& task)
      : Spread<T, L>(task),
        offsets_(static_cast<const SpreadOffset*>(task.offsets)) {}

  template <int U, typename Taps>
  MLX_POOLING_INLINE Nothing visit(const Taps& taps, int64_t c) const {
    using A = Arithmetic<T>;
    auto from = this->own_ + c;
    Vec<A, L> share[U];
    Vec<SpreadOffset, L> winner[U];
    for (int u = 0; u < U; ++u) {
      share[u] = sum_of_one<T>(load<L>(this->dy_ + from + u * L));
      winner[u] = load<L>(offsets_ + from + u * L);
    }
    taps.for_each(
        this->channels_, [&](int64_t at, int64_t tap) MLX_POOLING_LAMBDA {
          auto tap_here = broadcast<SpreadOffset, L>(SpreadOffset(tap));
          for (int u = 0; u < U; ++u) {
            auto won = kept<A, L>(share[u], winner[u] == tap_here);
            this->store_share(at + c + u * L, stored_exactly<T, L>(won));
          }
        });
    return {};
  }

 private:
  const SpreadOffset* offsets_;
};

template <typename T, int L>
class SpreadToAll : public Spread<T, L> {
 public:
  using Lane = Arithmetic<T>;

  explicit SpreadToAll(const AvgTask& task)
      : Spread<T, L>(task), divisors_(task.divisors) {}

  MLX_POOLING_INLINE void go_to(const Walk& walk, int64_t i) {
    Spread<T, L>::go_to(walk, i);
    divisor_ = divisor_at<Lane>(divisors_, walk.d(), walk.h(), walk.w());
  }

  template <int U, typename Taps>
  MLX_POOLING_INLINE Nothing visit(const Taps& taps, int64_t c) const {
    auto* dy = this->dy_ + this->own_ + c;
    Vec<Lane, L> share[U];
    for (int u = 0; u < U; ++u) {
      share[u] = sum_of_one<T>(load<L>(dy + u * L) / divisor_);
    }
    taps.for_each(this->channels_, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
      for (int u = 0; u < U; ++u) {
        this->store_share(at + c + u * L, stored<T, L>(share[u]));
      }
    });
    return {};
  }

 private:
  const Divisors& divisors_;
  Lane divisor_{}; // the same for windows that are alike
};

} // namespace

void max_scatter_spread(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    using Lane = OffsetLane<Arithmetic<T>, SpreadOffset>;
    with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
      for_each_window(task, begin, end, SpreadToWinners<T, L>(task));
    });
  });
}

void avg_grad_spread(const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(task.dtype, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      for_each_window(task, begin, end, SpreadToAll<T, L>(task));
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
