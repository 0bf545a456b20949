#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/inline.h"
#include "geometry.h"

namespace mlx_pooling::cpu {

// Quotients of numbers below 2^31 by one divisor above 1, which no division is
// done for.
class Quotient {
 public:
  explicit Quotient(int64_t divisor)
      : reciprocal_(divisor > 1 ? UINT64_MAX / divisor + 1 : 0) {}

  MLX_POOLING_INLINE int64_t of(int64_t number) const {
    return static_cast<int64_t>(Wide{reciprocal_} * number >> 64);
  }

 private:
  using Wide = unsigned __int128;

  uint64_t reciprocal_; // of 2^64
};

// A value for each position of an axis, of which those in a range follow from
// that of the position a period before: on long axes only those of the first
// period are stored.
template <typename T>
class Periodic {
 public:
  // Of a value that is stored, and how many periods further on.
  struct Place {
    int64_t index;
    int64_t periods;
  };

  Periodic() = default;

  // Of values that are not stored here.
  explicit Periodic(int64_t size) : size_(size) {}

  // Of values that do not repeat.
  explicit Periodic(std::vector<T> values)
      : size_(static_cast<int64_t>(values.size())),
        skipped_{size_, size_},
        values_(std::move(values)) {}

  // following(value, n): that of the position n periods on.
  template <typename ValueOf, typename Following>
  Periodic(
      int64_t size,
      Range repeating,
      int64_t period,
      ValueOf value_of,
      Following following)
      : size_(size), repeating_(repeating), period_(period), quotient_(period) {
    skipped_ = skipped(size, repeating, period);
    values_.reserve(size - skipped_.size());
    auto first_period = std::min(repeating.size(), period);
    auto stored = repeating.size() - skipped_.size();
    for (int64_t i = 0; i < repeating.begin + first_period; ++i) {
      values_.push_back(value_of(i));
    }
    for (int64_t i = first_period, n = 1; i < stored; ++n) {
      for (int64_t j = 0; j < period && i < stored; ++i, ++j) {
        values_.push_back(following(values_[repeating.begin + j], n));
      }
    }
    for (auto i = repeating.end; i < size; ++i) {
      values_.push_back(value_of(i));
    }
  }

  // Positions whose values would not be stored.
  static Range skipped(int64_t size, Range repeating, int64_t period) {
    auto first_period = std::min(repeating.size(), period);
    auto stored = size > kShort ? first_period : repeating.size();
    return {repeating.begin + stored, repeating.end};
  }

  int64_t size() const {
    return size_;
  }
  Range repeating() const {
    return repeating_;
  }
  int64_t period() const {
    return period_;
  }
  const std::vector<T>& values() const {
    return values_;
  }

  MLX_POOLING_INLINE Place place(int64_t i) const {
    if (i < skipped_.begin) {
      return {i, 0};
    }
    if (i >= skipped_.end) {
      return {i - skipped_.size(), 0};
    }
    auto n = i - repeating_.begin;
    auto periods = period_ == 1 ? n : quotient_.of(n);
    return {i - periods * period_, periods};
  }

  MLX_POOLING_INLINE const T& operator[](int64_t i) const {
    return values_[place(i).index];
  }

 private:
  // Looked up sooner than worked out.
  static constexpr int64_t kShort = 512;

  int64_t size_ = 0;
  Range repeating_{0, 0};
  int64_t period_ = 1;
  Quotient quotient_{1};
  Range skipped_{0, 0};
  std::vector<T> values_;
};

} // namespace mlx_pooling::cpu
