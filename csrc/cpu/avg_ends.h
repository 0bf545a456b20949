#pragma once

#include <type_traits>

#include "cpu/average.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/reduce.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Sums of windows are divided when they are stored; of cotangents each is
// divided when it is loaded, unless all by the same.
template <typename T>
class AvgEnds {
 public:
  using Stored = T;
  using Value = Arithmetic<T>;
  using Divisor = typename Average<T>::Divisor;
  using Op = Sum<Value>;
  static constexpr bool kDivided = std::is_floating_point_v<Divisor>;
  static constexpr bool kDividedFirst =
      std::is_floating_point_v<Value> && !is_power<T>;

  explicit AvgEnds(const AvgTask& task)
      : average_(task),
        divisors_(task.divisors),
        x_(static_cast<const T*>(task.from)),
        y_(task.to),
        channels_(task.channels),
        reads_by_position_(task.adjoint && !task.divisors.is_uniform),
        writes_by_position_(!task.adjoint && !task.divisors.is_uniform),
        around_caches_(task.around_caches),
        divisor_of_all_(
            reads_by_position() ? Divisor{1}
                                : divisor_at<Divisor>(task.divisors, 0, 0, 0)) {
  }

  // Constant where they can be: no integers are divided by each other.
  MLX_POOLING_INLINE bool reads_by_position() const {
    return kDividedFirst && reads_by_position_;
  }
  MLX_POOLING_INLINE bool writes_by_position() const {
    return kDivided && writes_by_position_;
  }
  const Value* values() const {
    if constexpr (std::is_same_v<T, Value>) {
      return reads_by_position() ? nullptr : x_;
    }
    return nullptr;
  }
  Range read_alike() const {
    return alike(reads_by_position());
  }
  Range written_alike() const {
    return alike(writes_by_position());
  }

  MLX_POOLING_INLINE void read(
      int64_t position,
      int64_t at,
      int64_t count,
      uintptr_t ahead,
      Value divisor,
      Value* values) const {
    auto* x = x_ + position * channels_ + at;
    for_each_lane<Op::kLanes>(
        count, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          fetch_ahead<L>(x + j, ahead);
          auto value = average_.template terms<L>(load<L>(x + j));
          store<L>(
              values + j,
              kDividedFirst && divisor != 1 ? value / divisor : value);
        });
  }

  MLX_POOLING_INLINE Value reading(const LinkedRow& row, int64_t w) const {
    return reads_by_position() ? divisor_at<Value>(divisors_, row.d, row.h, w)
                               : Value{1};
  }

  template <int L>
  MLX_POOLING_INLINE auto read_cell(int64_t at, Value divisor) const {
    auto value = average_.template terms<L>(load<L>(x_ + at));
    if (reads_by_position()) [[unlikely]] { // not in the middle of a loop
      value /= divisor;
    }
    return Op::template of<L>(value);
  }

  template <int L, int kLevel = 1>
  MLX_POOLING_INLINE void fetch_cell_ahead(int64_t at, uintptr_t ahead) const {
    fetch_ahead<L, kLevel>(x_ + at, ahead);
  }

  MLX_POOLING_INLINE Divisor writing(int64_t d, int64_t h, int64_t w) const {
    return writes_by_position() ? divisor_at<Divisor>(divisors_, d, h, w)
                                : divisor_of_all_;
  }

  template <int L, typename Cell>
  MLX_POOLING_INLINE void write_cell(
      int64_t at, uintptr_t ahead, const Cell& cell, Divisor divisor) const {
    average_.with_result_type([&]<typename To>(To) MLX_POOLING_LAMBDA {
      auto average = average_.template result<To, L>(cell.value, divisor);
      store_result(
          static_cast<To*>(y_) + at, stored<To, L>(average), ahead,
          around_caches_);
    });
  }

  // From now on, stores nothing around the caches.
  void stay_in_caches() {
    around_caches_ = false;
  }

 private:
  Range alike(bool by_position) const {
    return by_position ? divisors_.factors[2].repeating() : kWholeRow;
  }

  Average<T> average_;
  const Divisors& divisors_;
  const T* x_;
  void* y_;
  int64_t channels_;
  bool reads_by_position_;
  bool writes_by_position_;
  bool around_caches_;
  Divisor divisor_of_all_; // where sums are not divided by position
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
