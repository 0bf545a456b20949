#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "cpu/kernels.h"
#include "cpu/permute.h"
#include "cpu/walk.h"

// Groups of windows side by side, and the vectors that hold them: elements of
// one and two bytes are permuted as four. Lanes beyond the group's hold
// anything, and are stored where that is overwritten later.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

template <typename T>
inline constexpr bool is_narrow =
    std::is_integral_v<Arithmetic<T>> && sizeof(Arithmetic<T>) < 4;

template <typename T>
using Wide = std::conditional_t<is_narrow<T>, int32_t, Arithmetic<T>>;

template <typename T>
inline constexpr int kGroupLanes = kPermutedBytes / sizeof(Wide<T>);

template <int L, typename T>
MLX_POOLING_INLINE Vec<Wide<T>, L> load_wide(const T* from) {
  if constexpr (is_narrow<T>) {
    return resize<int32_t, L>(load<L>(from));
  } else {
    return load<L>(from);
  }
}

// Of the next elements, of which only those before `end` can be read.
template <int L, typename T>
MLX_POOLING_INLINE Vec<Wide<T>, L> load_wide(const T* from, const T* end) {
  if (end - from >= L) {
    return load_wide<L>(from);
  }
  T some[L] = {};
  std::copy(from, std::max(from, end), some);
  return load_wide<L>(some);
}

// As elements of type T are stored; values need no rounding, if `kExact`.
template <bool kExact, typename T, int L>
MLX_POOLING_INLINE auto stored_wide(Vec<Wide<T>, L> value) {
  if constexpr (is_narrow<T>) {
    using Bits = std::make_unsigned_t<Arithmetic<T>>;
    return resize<Bits, L>(bits_as<Vec<uint32_t, L>>(value));
  } else if constexpr (kExact) {
    return stored_exactly<T, L>(value);
  } else {
    return stored<T, L>(value);
  }
}

// Stores the first `count` of L elements.
template <int L, typename T, typename Bits>
MLX_POOLING_INLINE void store_first(T* to, const Bits& bits, int64_t count) {
#if defined(__AVX512BW__)
  const auto mask = (uint32_t{1} << count) - 1;
  if constexpr (sizeof(Bits) == 64 && L == 16) {
    return _mm512_mask_storeu_epi32(to, mask, bits_as<__m512i>(bits));
  } else if constexpr (sizeof(Bits) == 64 && L == 8) {
    return _mm512_mask_storeu_epi64(to, mask, bits_as<__m512i>(bits));
  } else if constexpr (sizeof(Bits) == 32 && L == 16) {
    return _mm256_mask_storeu_epi16(to, mask, bits_as<__m256i>(bits));
  } else if constexpr (sizeof(Bits) == 16 && L == 16) {
    return _mm_mask_storeu_epi8(to, mask, bits_as<__m128i>(bits));
  }
#endif
  T some[L];
  std::memcpy(some, &bits, sizeof(bits));
  std::copy_n(some, count, to);
}

template <int L>
using AllOf = std::integral_constant<int64_t, L>;

// Stores the first `count` elements.
template <bool kExact, int L, typename T, typename Count>
MLX_POOLING_INLINE void store_wide(T* to, Vec<Wide<T>, L> value, Count count) {
  auto bits = stored_wide<kExact, T, L>(value);
  if constexpr (std::is_same_v<Count, AllOf<L>>) {
    std::memcpy(to, &bits, sizeof(bits));
  } else {
    store_first<L>(to, bits, count);
  }
}

// From a row to one that windows some rows below read or write in its place:
// hardware does not expect that.
template <typename T>
uintptr_t rows_ahead_bytes(const Task& task) {
  constexpr int64_t kLeast = kAheadBytes;
  constexpr int64_t kMost = 32 * 1024; // later, they may be gone again
  auto& [depth, height, width] = task.links.axes;
  auto rows = height.of[height.size() - 1].first - height.of[0].first;
  auto below = rows / std::max<int64_t>(1, height.size() - 1);
  int64_t bytes = below * width.other_size * task.channels * sizeof(T);
  return 0 < bytes && bytes <= kMost ? ceil_div(kLeast, bytes) * bytes : kLeast;
}

// Groups of `windows` each that follow each other in a row, or row by row where
// each is a whole one; of more than one, none is cut off. The walk is at the
// first of them, which is number i.
struct GroupRun {
  const Walk& walk;
  int64_t i;
  int64_t windows;
  int64_t groups;
  int64_t next; // positions of the input from one group to the next
};

// Rows of windows that none of the input's ends cut off: what they read lies as
// far apart each.
class EvenRows {
 public:
  explicit EvenRows(const Links& links) {
    auto& [depth, height, width] = links.axes;
    even_ = height.of.repeating();
    next_ = height.of.step() * width.other_size;
    auto tiled = height.of.step() * height.size();
    bool is_plane = depth.size() == 1 && depth.other_size == 1;
    goes_on_ =
        is_plane && even_.size() == height.size() && tiled == height.other_size;
  }

  // How many there are from the walk's on.
  int64_t from(const Walk& walk) const {
    if (goes_on_) { // in the next sample
      return std::numeric_limits<int64_t>::max();
    }
    return even_.contains(walk.h()) ? even_.end - walk.h() : 1;
  }

  int64_t next() const {
    return next_;
  }

 private:
  Range even_;
  int64_t next_;
  bool goes_on_;
};

// Calls visit(run) for runs that make up [begin, end).
template <typename Visit>
MLX_POOLING_INLINE void
for_each_run(const Task& task, int64_t begin, int64_t end, Visit visit) {
  // Enough to share what a run costs, but not too many to reduce again for a
  // NaN.
  constexpr int64_t kMost = 64;
  const auto side = task.side_by_side;
  const EvenRows rows(task.links);
  const auto row = task.links.axes[2].size();
  Walk walk(task.links, begin);
  for (auto i = begin; i < end;) {
    int64_t windows = 1;
    int64_t groups = 1;
    auto next = side.stride;
    if (side.uncut.contains(walk.w())) {
      auto left = std::min(side.uncut.end - walk.w(), end - i);
      windows = std::min(side.windows, left);
      next *= windows;
      if (windows == row) {
        groups = std::min({rows.from(walk), (end - i) / row, kMost});
        next = rows.next();
      } else if (left >= 2 * windows) {
        groups = std::min(left / windows, kMost);
      }
      // Full groups are faster, even if they repeat what the last one did.
      auto missing = side.windows - windows;
      if (walk.w() - missing >= side.uncut.begin && i - missing >= begin) {
        walk.skip(-missing);
        i -= missing;
        windows += missing;
      }
    }
    visit(GroupRun{walk, i, windows, groups, next});
    i += groups * windows;
    for (int64_t g = 0; g < groups; ++g) {
      walk.skip(windows);
    }
  }
}

// G groups, from the run's group `first` on. Unless kInside, vectors of theirs
// may reach beyond what may be read or overwritten.
template <int G, bool kInside>
struct Groups {
  static constexpr int kCount = G;
  int64_t first;
};

// Each takes two registers for its input and up to two for results, which
// leaves a third of them for what all have in common.
inline constexpr int kMostGroups = kRegisters / 6;

// Where the elements of a run's groups are in the arrays, results before window
// `end`.
template <typename T, int L>
class GroupElements {
 public:
  GroupElements(const Task& task, const GroupRun& run, int64_t end)
      : run_(run),
        channels_(task.channels),
        count_(run.windows * channels_),
        next_(run.next * channels_),
        x_(static_cast<const T*>(task.from) + run.walk.plane() * channels_),
        x_end_(static_cast<const T*>(task.from_end)),
        end_((end - run.i) * channels_) {}

  // Calls visit(groups) with all of them: kMost at once, if they may be, which
  // is 1 for runs of one only.
  template <int kMost, typename Visit>
  MLX_POOLING_INLINE void for_each(Visit visit) const {
    if constexpr (kMost == 1) {
      visit(Groups<1, false>{0});
    } else {
      int64_t g = 0;
      const auto readable =
          x_end_ - x_ - run_.walk.newest() * channels_ - 2 * L;
      auto at_once = [&](auto groups) MLX_POOLING_LAMBDA {
        for (auto last = g + groups.kCount - 1; last < run_.groups &&
             last * next_ <= readable && last * count_ + L <= end_;
             last += groups.kCount) {
          visit(decltype(groups){g});
          g = last + 1;
        }
      };
      at_once(Groups<kMost, true>{0});
      if constexpr (kMost > 2) {
        at_once(Groups<2, true>{0});
      }
      for (; g < run_.groups; ++g) {
        visit(Groups<1, false>{g});
      }
    }
  }

  // The two vectors of each group, from a position of its plane on.
  template <int G, bool kInside>
  MLX_POOLING_INLINE void load(
      Groups<G, kInside> groups,
      int64_t spatial,
      uintptr_t ahead,
      Vec<Wide<T>, L> (&low)[G],
      Vec<Wide<T>, L> (&high)[G]) const {
    auto* row = x_ + spatial * channels_ + groups.first * next_;
    for (int g = 0; g < G; ++g, row += next_) {
      fetch_ahead<L>(row, ahead);
      fetch_ahead<L>(row + L, ahead);
      low[g] = kInside ? load_wide<L>(row) : load_wide<L>(row, x_end_);
      high[g] = kInside ? load_wide<L>(row + L) : load_wide<L>(row + L, x_end_);
    }
  }

  template <bool kExact, typename To, int G, bool kInside>
  MLX_POOLING_INLINE void store(
      Groups<G, kInside> groups,
      void* to,
      const Vec<Wide<To>, L> (&results)[G]) const {
    auto at = groups.first * count_;
    auto* first = static_cast<To*>(to) + run_.i * channels_;
    for (int g = 0; g < G; ++g, at += count_) {
      if (kInside || at + L <= end_) {
        store_wide<kExact, L>(first + at, results[g], AllOf<L>{});
      } else {
        store_wide<kExact, L>(first + at, results[g], count_);
      }
    }
  }

 private:
  const GroupRun& run_;
  int64_t channels_;
  int64_t count_; // elements of a group's results
  int64_t next_;  // from one group's input to the next
  const T* x_;    // the walk's plane
  const T* x_end_;
  int64_t end_; // of results
};

// Where the elements of a group's windows lie, tap by tap, in the two vectors
// from the first window's first tap on.
template <typename A, int L>
class GroupPlaces {
 public:
  explicit GroupPlaces(const Task& task) {
    auto& width = task.links.axes[2];
    auto& side = task.side_by_side;
    for (int64_t k = 0; k < width.kernel; ++k) {
      for (int64_t j = 0; j < side.windows * task.channels; ++j) {
        auto position = j / task.channels * side.stride + k * width.step;
        of_[k][j] = position * task.channels + j % task.channels;
      }
    }
  }

  MLX_POOLING_INLINE Places<A, L> operator[](int64_t k) const {
    return load<L>(of_[k]);
  }

 private:
  // No more positions than two vectors have lanes.
  alignas(64) OffsetLane<A, uint32_t> of_[2 * L][L] = {};
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
