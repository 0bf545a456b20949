#pragma once

#include <limits>

#include "cpu/compare.h"
#include "cpu/element.h"
#include "cpu/kernels.h"
#include "cpu/roots.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// How a window's elements become its average, or its norm: as terms that are
// added up, and a result. Integers that are not quantized are only summed.
template <typename T>
class Average {
 public:
  using Term = Arithmetic<T>;
  using Divisor = std::conditional_t<is_quantized<T>, float, Term>;

  explicit Average(const AvgTask& task)
      : zero_point_(task.zero_point), gives_floats_(task.gives_floats) {}

  template <int L>
  MLX_POOLING_INLINE Vec<Term, L> terms(Vec<Term, L> elements) const {
    if constexpr (is_quantized<T>) {
      return elements - zero_point_;
    } else if constexpr (is_power<T>) {
      auto square = elements * elements;
      return T::exponent == 2 ? square : square * elements;
    } else {
      return elements;
    }
  }

  // Calls visit(To{}) with the type that results are stored as.
  template <typename Visit>
  MLX_POOLING_INLINE void with_result_type(Visit visit) const {
    if constexpr (is_quantized<T>) {
      if (gives_floats_) {
        return visit(float{});
      }
    }
    visit(T{});
  }

  // Of one divisor for all, or one for each.
  template <typename To, int L, typename Divisors>
  MLX_POOLING_INLINE Vec<Arithmetic<To>, L>
  result(Vec<Term, L> sum, Divisors divisor) const {
    if constexpr (is_quantized<To>) {
      return quantized<L>(sum, divisor);
    } else if constexpr (is_quantized<T>) {
      return converted<float, L>(sum) / divisor;
    } else if constexpr (is_power<T>) {
      return root<T::exponent, Term, L>(sum / divisor);
    } else if constexpr (std::is_floating_point_v<Term>) {
      return sum / divisor;
    } else {
      return sum;
    }
  }

 private:
  // Rounded after each step, and to an integer at last, ties to even: its bits
  // are the lowest of those of a float that is so large.
  template <int L, typename Divisors>
  MLX_POOLING_INLINE Vec<Term, L>
  quantized(Vec<Term, L> sum, Divisors divisor) const {
    using Limits = std::numeric_limits<decltype(T::integer)>;
    constexpr float kRounding = 0x1.8p23f;
    const auto least = broadcast<float, L>(Limits::min());
    const auto most = broadcast<float, L>(Limits::max());
    Vec<float, L> average = converted<float, L>(sum) * (1.0f / divisor);
    average =
        larger<float, L>(average + static_cast<float>(zero_point_), least);
    average = chosen<L>(average < most, average, most);
    return bits_as<Vec<Term, L>>(average + kRounding) -
        bits_as<Term>(kRounding);
  }

  Term zero_point_; // of quantized elements
  bool gives_floats_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
