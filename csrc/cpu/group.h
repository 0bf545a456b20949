#pragma once

#include <algorithm>
#include <type_traits>

#include "cpu/group_runs.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
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

// Whether some lanes of a vector are stored as fast as all.
#if defined(__AVX512BW__)
inline constexpr bool kMasksStores = true;
#else
inline constexpr bool kMasksStores = false;
#endif

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

// Taps in a row of the windows of a run's groups.
MLX_POOLING_INLINE int64_t columns(const Task& task, const GroupRun& run) {
  return run.part == Part::inner ? run.walk.columns()
                                 : task.links.axes[2].kernel;
}

// Each takes two registers for its input and up to two for results, which
// leaves a third of them for what all have in common.
inline constexpr int kMostGroups = kRegisters / 6;

// G groups, the first of which has its elements so far from the run's first.
// Unless kInside, vectors of theirs may reach beyond what may be read or
// overwritten.
template <int G, bool kInside>
struct Groups {
  static constexpr int kCount = G;
  int64_t from;
  int64_t to;
};

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
        apart_(run.apart * channels_),
        row_(task.links.axes[2].size() * channels_),
        is_row_by_row_(apart_ > count_),
        x_(static_cast<const T*>(task.from) + run.walk.plane() * channels_),
        x_end_(static_cast<const T*>(task.from_end)),
        end_((end - run.i) * channels_) {
    auto last =
        run.walk.w() + (run.rows > 1 ? run.groups - 1 : 0) * run.windows;
    auto left = row_ - last * channels_;
    // By the next row, unless what is cut off of it was reduced before.
    bool by_row = run.rows == 1 || task.side_by_side.uncut.begin == 0;
    is_followed_ = L <= left || (!is_row_by_row_ && by_row);
  }

  // Calls visit(groups) with all of them: kMost at once, if they may be, which
  // is 1 for runs of one only.
  template <int kMost, typename Visit>
  MLX_POOLING_INLINE void for_each(Visit visit) const {
    if constexpr (kMost == 1) {
      visit(Groups<1, false>{0, 0});
    } else {
      const auto readable =
          x_end_ - x_ - run_.walk.newest() * channels_ - 2 * L;
      for (int64_t row = 0; row < run_.rows; ++row) {
        for_each_of_row<kMost>(row, readable, visit);
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
    auto* row = x_ + spatial * channels_ + groups.from;
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
    auto at = groups.to;
    auto* first = static_cast<To*>(to) + run_.i * channels_;
    for (int g = 0; g < G; ++g, at += apart_) {
      if (is_row_by_row_) { // hardware does not expect that
        claim_ahead<L>(first + at, run_.groups * apart_ * sizeof(To));
      }
      bool is_all = kInside && !kMasksStores;
      if (is_all || (is_followed_ && (kInside || at + L <= end_))) {
        store_wide<kExact, L>(first + at, results[g], AllOf<L>{});
      } else {
        store_wide<kExact, L>(first + at, results[g], count_);
      }
    }
  }

 private:
  template <int kMost, typename Visit>
  MLX_POOLING_INLINE void
  for_each_of_row(int64_t row, int64_t readable, const Visit& visit) const {
    auto from = row * run_.next_row * channels_;
    auto to = row * row_;
    auto left = run_.groups;
    auto at_once = [&](auto groups) MLX_POOLING_LAMBDA {
      constexpr int64_t kLast = decltype(groups)::kCount - 1;
      while (left > kLast && from + kLast * next_ <= readable &&
             to + kLast * apart_ + L <= end_) {
        visit(decltype(groups){from, to});
        left -= kLast + 1;
        from += (kLast + 1) * next_;
        to += (kLast + 1) * apart_;
      }
    };
    if (is_followed_ || kMasksStores) {
      at_once(Groups<kMost, true>{});
      if constexpr (kMost > 2) {
        at_once(Groups<2, true>{});
      }
    }
    for (; left > 0; --left, from += next_, to += apart_) {
      visit(Groups<1, false>{from, to});
    }
  }

  const GroupRun& run_;
  int64_t channels_;
  int64_t count_;      // elements of a group's results
  int64_t next_;       // from one group's input to the next
  int64_t apart_;      // and from its results
  int64_t row_;        // results of a row
  bool is_row_by_row_; // whether the groups are of one row each
  bool is_followed_;   // whether what is beyond them is written later
  const T* x_;         // the walk's plane
  const T* x_end_;
  int64_t end_; // of results
};

// What each lane of a group's results is reduced from.
template <typename A, int L>
class GroupTaps {
 public:
  using Lane = OffsetLane<A, uint32_t>;

  // One of each window: where its elements lie in the two vectors from the
  // first window's first tap on, and which it is. In place of those beyond the
  // input's ends there are others next to them.
  struct Tap {
    alignas(64) Lane places[L];
    alignas(64) Lane taps[L];
  };

  // Those of one part of a row.
  struct OfPart {
    const Tap* of;
    Lane first_tap; // of its first window

    MLX_POOLING_INLINE Places<A, L> places(int64_t k) const {
      return load<L>(of[k].places);
    }

    // If the first window's first is `first`.
    MLX_POOLING_INLINE Vec<Lane, L> taps(int64_t k, int64_t first) const {
      return load<L>(of[k].taps) + broadcast<Lane, L>(Lane(first) - first_tap);
    }

    MLX_POOLING_INLINE auto are_inside(int64_t k) const {
      return load<L>(of[k].taps) == broadcast<Lane, L>(Lane(k));
    }
  };

  explicit GroupTaps(const Task& task) {
    auto& width = task.links.axes[2];
    const auto& side = task.side_by_side;
    const auto windows = std::max<int64_t>(1, side.windows);
    kernel_ = width.kernel;
    add(task, windows, 1,
        [&](int64_t w) { return Link{w * side.stride, kernel_, 0}; });
    if (side.rows > 0) {
      add(task, width.size(), side.rows,
          [&](int64_t w) { return width.of[w]; });
    } else if (side.with_cut) {
      for (auto first : {int64_t{0}, width.size() - windows}) {
        add(task, windows, 1, [&](int64_t w) { return width.of[first + w]; });
      }
    }
  }

  MLX_POOLING_INLINE OfPart operator[](Part part) const {
    auto number = static_cast<int>(part);
    return {of_[number], first_taps_[number]};
  }

 private:
  static constexpr int kMostParts = 3;

  // Adds those of a part, of so many windows of so many rows.
  template <typename LinkOf>
  void add(const Task& task, int64_t windows, int64_t rows, LinkOf link_of) {
    auto& width = task.links.axes[2];
    const Link first = link_of(0);
    const auto next_row = EvenRows(task.links).next();
    auto* of = of_[parts_];
    first_taps_[parts_++] = Lane(first.tap);
    int64_t j = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t w = 0; w < windows; ++w) {
        const auto link = link_of(w).moved(r * next_row - first.first);
        const auto cut = width.tap_step == 1 ? link.tap : 0;
        for (int64_t c = 0; c < task.channels; ++c, ++j) {
          for (int64_t k = 0; k < kernel_; ++k) {
            auto i = std::clamp<int64_t>(k - cut, 0, link.count - 1);
            auto at = link.first + i * width.step;
            of[k].places[j] = Lane(at * task.channels + c);
            of[k].taps[j] = Lane(cut + i);
          }
        }
      }
    }
  }

  int64_t kernel_;
  int parts_ = 0;
  Lane first_taps_[kMostParts];
  // No more positions than two vectors have lanes.
  Tap of_[kMostParts][2 * L];
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
