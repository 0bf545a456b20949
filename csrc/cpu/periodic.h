#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "geometry.h"

namespace mlx_pooling::cpu {

// Quotients of numbers below 2^31 by one divisor above 1, which no division is
// done for.
class Quotient {
 public:
  explicit Quotient(int64_t divisor) : reciprocal_(UINT64_MAX / divisor + 1) {}

  int64_t of(int64_t number) const {
    return static_cast<int64_t>(Wide{reciprocal_} * number >> 64);
  }

 private:
  using Wide = unsigned __int128;

  uint64_t reciprocal_; // of 2^64
};

// A value for each position of an axis, of which those in a range have that of
// the position a period before: they take no memory.
template <typename T>
class Periodic {
 public:
  // Of the values that are stored, and how many periods further on.
  struct Place {
    int64_t index;
    int64_t periods;
  };

  Periodic() = default;

  template <typename ValueOf>
  Periodic(int64_t size, Range repeating, int64_t period, ValueOf value_of)
      : range_(repeating), period_(period), quotient_(period), size_(size) {
    auto stored = std::min(repeating.size(), period);
    values_.reserve(size - repeating.size() + stored);
    for (int64_t i = 0; i < repeating.begin + stored; ++i) {
      values_.push_back(value_of(i));
    }
    for (auto i = repeating.end; i < size; ++i) {
      values_.push_back(value_of(i));
    }
  }

  int64_t size() const {
    return size_;
  }
  Range repeating() const {
    return range_;
  }
  int64_t period() const {
    return period_;
  }
  const std::vector<T>& values() const {
    return values_;
  }

  Place place(int64_t i) const {
    if (!range_.contains(i)) {
      return {i < range_.begin ? i : i - (size_ - stored()), 0};
    }
    auto n = i - range_.begin;
    auto periods = period_ == 1 ? n : quotient_.of(n);
    return {range_.begin + n - periods * period_, periods};
  }

  const T& operator[](int64_t i) const {
    return values_[place(i).index];
  }

 private:
  int64_t stored() const {
    return static_cast<int64_t>(values_.size());
  }

  Range range_{0, 0};
  int64_t period_ = 1;
  Quotient quotient_{1};
  std::vector<T> values_;
  int64_t size_ = 0;
};

} // namespace mlx_pooling::cpu
