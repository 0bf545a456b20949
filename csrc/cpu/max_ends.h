#pragma once

#include <type_traits>

#include "cpu/compared.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/reduce.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Lanes that taps of maxima of T are counted in, for any window.
template <typename T>
using WideTap = OffsetLane<Arithmetic<T>, uint32_t>;

// Calls visit<T, Tap>() with the types that elements are compared as and that
// taps are counted in. If nobody asks which tap a maximum is, Tap is void, and
// half types are integers, of which twice as many are compared at once. Else it
// is the offsets' own type if that is one of Narrow, may be used, and is
// faster.
template <typename... Narrow, typename Visit>
void with_value_and_tap(const MaxTask& task, bool may_be_narrow, Visit visit) {
  with_compared_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      using Value = std::conditional_t<is_half<T>, Ordered<T>, T>;
      return visit.template operator()<Value, void>();
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using A = Arithmetic<T>;
      if constexpr (
          compares_to_mask<Vec<A, kFullLanes<A>>> &&
          (std::is_same_v<Offset, Narrow> || ...)) {
        if (may_be_narrow) {
          return visit.template operator()<T, Offset>();
        }
      }
      visit.template operator()<T, WideTap<T>>();
    });
  });
}

// What maxima read and write: values, and taps where they are asked for.
template <typename T, typename Tap, Rule kRule>
class MaxEnds {
 public:
  using Stored = T;
  using Op = Max<Arithmetic<T>, Tap, kRule>;

  explicit MaxEnds(const MaxTask& task)
      : x_(static_cast<const T*>(task.from)),
        y_(static_cast<T*>(task.to)),
        offsets_(task.offsets),
        offsets_dtype_(task.offsets_dtype),
        channels_(task.channels),
        around_caches_(task.around_caches),
        compared_(task) {}

  const typename Op::Value* values() const {
    if constexpr (std::is_same_v<T, typename Op::Value>) {
      return compared_.are_as_stored() ? x_ : nullptr;
    }
    return nullptr;
  }
  static constexpr Range read_alike() {
    return kWholeRow;
  }
  static constexpr Range written_alike() {
    return kWholeRow;
  }

  MLX_POOLING_INLINE void read(
      int64_t position,
      int64_t at,
      int64_t count,
      uintptr_t ahead,
      int64_t,
      typename Op::Value* values) {
    auto* x = x_ + position * channels_ + at;
    bool saw_nan = false;
    for_each_lane<Op::kLanes>(
        count, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          fetch_ahead<L>(x + j, ahead);
          auto value = compared_.template read<L>(x + j);
          if constexpr (Op::kWatched) {
            saw_nan |= any_nan<typename Op::Value, L>(value);
          }
          store<L>(values + j, value);
        });
    saw_nan_ |= saw_nan;
  }

  MLX_POOLING_INLINE int64_t reading(const LinkedRow& row, int64_t) const {
    return row.tap;
  }

  template <int L>
  MLX_POOLING_INLINE auto read_cell(int64_t at, int64_t tap) const {
    auto value = compared_.template read<L>(x_ + at);
    return Op::template moved<L>(Op::template of<L>(value), tap);
  }

  template <int L, int kLevel = 1>
  MLX_POOLING_INLINE void fetch_cell_ahead(int64_t at, uintptr_t ahead) const {
    fetch_ahead<L, kLevel>(x_ + at, ahead);
  }

  void see_nan(bool is_there) {
    saw_nan_ |= is_there;
  }

  // Whether a NaN was read that the rule is not for.
  bool saw_nan() const {
    return saw_nan_;
  }

  struct Nothing {};

  MLX_POOLING_INLINE Nothing writing(int64_t, int64_t, int64_t) const {
    return {};
  }

  template <int L, typename Cell>
  MLX_POOLING_INLINE void
  write_cell(int64_t at, uintptr_t ahead, const Cell& cell, Nothing) const {
    auto* y = y_ + at;
    auto bits = compared_.template stored<L>(cell.value);
    store_result(y, bits, ahead, around_caches_);
    if constexpr (Op::kTaps) {
      if (kRule == Rule::fast || offsets_) {
        write_taps<L>(at, cell.tap);
      }
    }
  }

  // From now on, stores nothing around the caches.
  void stay_in_caches() {
    around_caches_ = false;
  }

 private:
  // Of values in lines those of which two vectors make up a line: one that
  // stays unfinished for longer is slow.
  template <int L>
  static constexpr bool kTapsAroundCaches =
      fills_lines<2 * L * int64_t{sizeof(Tap)}>;

  template <int L, typename V>
  MLX_POOLING_INLINE void write_taps(int64_t at, V taps) const {
    if constexpr (sizeof(Tap) < sizeof(uint32_t)) {
      auto* to = static_cast<Tap*>(offsets_) + at;
      bool is_stored = kTapsAroundCaches<L> && around_caches_ &&
          stored_around_caches(to, taps);
      if (!is_stored) {
        store<L>(to, taps);
      }
    } else {
      with_offset_type(
          offsets_dtype_, [&]<typename Offset>(Offset) MLX_POOLING_LAMBDA {
            store<L>(
                static_cast<Offset*>(offsets_) + at, resize<Offset, L>(taps));
          });
    }
  }

  const T* x_;
  T* y_;
  void* offsets_;
  Val offsets_dtype_;
  int64_t channels_;
  bool around_caches_;
  Compared<T> compared_;
  bool saw_nan_ = false;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
