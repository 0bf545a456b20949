#pragma once

#include <algorithm>
#include <array>

#include "cpu/alike.h"
#include "cpu/dispatch.h"
#include "cpu/walk.h"

// Windows one after the other. Most of a row differ in nothing but where they
// begin: of few channels, to look up each window's taps, and to loop over taps
// whose number nobody knows, would take several times as long as the taps do.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Whether there is code for windows that are alike: not of rarer elements, nor
// for vectors that hold few of them.
template <typename T, int L>
inline constexpr bool has_alike =
#if defined(__AVX2__)
    (std::is_same_v<Arithmetic<T>, float> || is_ordered<T>) &&
    L >= kFullLanes<float>;
#else
    false;
#endif

// At a window: where its plane is on the other side, of elements T there, and
// how many elements lie before its own on this side.
template <typename T>
class AtWindow {
 public:
  static constexpr int kMostVectors = 8;
  static constexpr bool may_be_wide(const Taps&) {
    return false;
  }

  AtWindow(T* all, int64_t channels) : channels_(channels), all_(all) {}

  MLX_POOLING_INLINE void go_to(const Walk& walk, int64_t i) {
    plane_ = all_ + walk.plane() * channels_;
    own_ = i * channels_;
  }
  // To a window that begins so many elements further on.
  MLX_POOLING_INLINE void next(int64_t step) {
    plane_ += step;
    own_ += channels_;
  }

 protected:
  int64_t channels_;
  T* plane_ = nullptr;
  int64_t own_ = 0;

 private:
  T* all_;
};

// Some neighbouring windows that are alike.
struct AlikeWindows {
  int64_t count;
  int64_t step; // elements from one's taps to those of the next
};

// What the first of them is made of, as Taps: K columns of R rows, unless that
// is 0.
template <int K, int R>
class AlikeTaps {
 public:
  AlikeTaps(const Task& task, const Walk& walk)
      : next_column_(task.links.axes[2].step * task.channels) {
    walk.for_each_row([&](int64_t spatial, int64_t tap) {
      rows_[count_++] = {spatial * task.channels, tap};
    });
  }

  static constexpr bool none() {
    return false;
  }

  MLX_POOLING_INLINE int64_t first() const {
    return rows_[0].tap;
  }

  static constexpr int64_t columns() {
    return K;
  }

  // They have none but short rows.
  template <bool kInChains = false, typename Visit, typename End = NoEnd>
  MLX_POOLING_INLINE void for_each(int64_t, Visit visit, End end = {}) const {
    const int rows = R > 0 ? R : count_;
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < K; ++k) {
        visit(rows_[r].at + k * next_column_, rows_[r].tap + k);
      }
      end();
    }
  }

 private:
  struct Row {
    int64_t at; // of its first tap
    int64_t tap;
  };

  int64_t next_column_;
  int count_ = 0;
  std::array<Row, kMostAlikeRows> rows_;
};

// Calls visit(taps) with those of windows that are alike.
template <typename Visit>
void with_alike_taps(const Task& task, const Walk& walk, Visit visit) {
  auto with_columns = [&]<int K>() {
    if (walk.linked_rows() == K) {
      visit(AlikeTaps<K, K>(task, walk));
    } else {
      visit(AlikeTaps<K, 0>(task, walk));
    }
  };
  if (walk.columns() == 2) {
    with_columns.template operator()<2>();
  } else {
    with_columns.template operator()<3>();
  }
}

// What visits see that nobody asks about.
struct Nothing {
  MLX_POOLING_INLINE void join(Nothing) {}
};

// Visits the same channels of all of them, of which `window` is the first.
template <int U, typename Window, typename Taps>
[[gnu::noinline]] auto
visit_alike(Window window, const Taps& of, AlikeWindows windows, int64_t c) {
  const auto taps = of; // where no store can change it
  auto seen = window.template visit<U>(taps, c);
  while (--windows.count > 0) {
    window.next(windows.step);
    seen.join(window.template visit<U>(taps, c));
  }
  return seen;
}

// Visits them exactly if one of the visits before has seen a NaN: copies, as
// those of the caller stay in registers.
template <int U, typename Seen, typename Window, typename Taps>
MLX_POOLING_INLINE void see_to_nan(
    const Seen& seen,
    const Window& first,
    const Taps& of,
    AlikeWindows windows,
    int64_t c) {
  if constexpr (!std::is_same_v<Seen, Nothing>) {
    if (seen.saw_nan()) {
      auto window = first;
      const auto taps = of;
      for (; windows.count > 0; --windows.count) {
        window.visit_exactly(taps, c, U);
        window.next(windows.step);
      }
    }
  }
}

// Visits windows `begin` to `end`. A Window has
//
//   Lane, kLanes: the widest lane, and how many make up its vectors
//   kHasAlike: whether there is code for those that are alike
//   kMostVectors: of others, that are visited at once
//   may_be_wide(taps): whether these may be visited more than 8 at once
//   go_to(walk, i), next(step), as AtWindow: which one it is from then on
//   visit<U>(taps, c): sees to U vectors of channels, from c on. Returns what
//     was seen: Nothing, or whether there is a NaN that is to be seen to by
//   visit_exactly(taps, c, vectors)
//
// and is copied to where no store can change it.
template <typename Window>
[[gnu::noinline]] void
for_each_window(const Task& task, int64_t begin, int64_t end, Window window) {
  using Lane = typename Window::Lane;
  constexpr auto kLanes = Window::kLanes;
  const auto channels = task.channels;
  [[maybe_unused]] const auto alike =
      alike_windows(task.links.axes[2], channels, kFullLanes<float>);
  Walk walk(task.links, begin);
  for (auto i = begin; i < end;) {
    window.go_to(walk, i);
    if constexpr (Window::kHasAlike) {
      if (alike.contains(walk.w()) && !walk.unlinked() &&
          walk.linked_rows() <= kMostAlikeRows) {
        const AlikeWindows windows{
            std::min(alike.end - walk.w(), end - i),
            task.links.axes[2].of.step() * channels};
        with_alike_taps(task, walk, [&](const auto& taps) {
          for_each_block<Lane, kLanes, kMostAlikeVectors>(
              channels, [&]<int U>(Vectors<U>, int64_t c) {
                auto seen = visit_alike<U>(window, taps, windows, c);
                see_to_nan<U>(seen, window, taps, windows, c);
              });
        });
        i += windows.count;
        walk.skip(windows.count);
        continue;
      }
    }
    const auto taps = walk.taps();
    for_each_block<Lane, kLanes, Window::kMostVectors>(
        channels,
        [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          auto seen = window.template visit<U>(taps, c);
          see_to_nan<U>(seen, window, taps, {1, 0}, c);
        },
        Window::may_be_wide(taps));
    ++i;
    walk.next();
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
