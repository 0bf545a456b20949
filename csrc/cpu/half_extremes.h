#pragma once

#include "cpu/compare.h"
#include "cpu/element.h"
#include "cpu/vec.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// What the maximum or the minimum of half floats follows from, by comparing
// their bits as they are stored: a sign and a magnitude, which is above
// infinity's in a NaN. Any NaN is the result.
template <typename T, int L>
class HalfExtremes {
 public:
  using Bits = Vec<uint16_t, L>;

  HalfExtremes() = default;

  // Of none.
  MLX_POOLING_INLINE explicit HalfExtremes(bool minimum) {
    auto none = broadcast<uint16_t, L>(minimum ? kInfinity : kSign | kInfinity);
    most_ = bits_as<Vec<int16_t, L>>(none);
    least_bits_ = none;
    most_bits_ = none;
  }

  MLX_POOLING_INLINE void join(Vec<int16_t, L> value) {
    auto bits = bits_as<Bits>(value);
    most_ = larger<int16_t, L>(value, most_);
    least_bits_ = smaller<L>(bits, least_bits_);
    most_bits_ = larger<uint16_t, L>(bits, most_bits_);
  }

  // The largest of those without a sign, which a NaN without one is, if there
  // are any, or that of the smallest magnitude.
  MLX_POOLING_INLINE Bits maximum() const {
    auto largest =
        chosen<L>(most_ >= int16_t{0}, bits_as<Bits>(most_), least_bits_);
    return chosen<L>(most_bits_ > kNegativeInfinity, most_bits_, largest);
  }

  // The same the other way round.
  MLX_POOLING_INLINE Bits minimum() const {
    auto smallest = chosen<L>(most_bits_ >= kSign, most_bits_, least_bits_);
    return chosen<L>(
        most_ > int16_t{kInfinity}, bits_as<Bits>(most_), smallest);
  }

 private:
  static constexpr uint16_t kSign = 0x8000;
  static constexpr uint16_t kInfinity = 0x7fff - T::kNans;
  static constexpr uint16_t kNegativeInfinity = kSign | kInfinity;

  Vec<int16_t, L> most_;
  Bits least_bits_;
  Bits most_bits_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
