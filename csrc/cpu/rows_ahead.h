#pragma once

#include <algorithm>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Bytes that a core's caches may hold.
inline constexpr int64_t kCoreCacheBytes = 2 << 20;

// Where a row begins. A type of this namespace, and so are containers of it.
struct FirstElement {
  int64_t number;
  bool operator==(const FirstElement&) const = default;
};

// What a kernel that goes row by row asks for while it is at one: the rows that
// the next reads, and this one does not. Hardware expects none of them where
// they lie planes apart.
class RowsAhead {
 public:
  RowsAhead() = default;

  template <typename Rows>
  RowsAhead(const Rows& here, const Rows& next) {
    rows_.reserve(next.size());
    for (auto row : next) {
      bool is_here = std::find(here.begin(), here.end(), row) != here.end();
      bool is_known = std::find(rows_.begin(), rows_.end(), row) != rows_.end();
      if (!is_here && !is_known) {
        rows_.push_back(row);
      }
    }
  }

  // kBytes of each, from the same element on.
  template <int kBytes, typename T>
  MLX_POOLING_INLINE void fetch(const T* from) const {
    for (auto row : rows_) {
      fetch_lines_ahead<kBytes, 2>(from + row.number, 0);
    }
  }

 private:
  std::vector<FirstElement> rows_;
};

// Of what a walk's windows read.
inline std::vector<FirstElement>
first_elements(const Walk& walk, int64_t channels) {
  std::vector<FirstElement> rows;
  rows.reserve(walk.linked_rows());
  walk.for_each_row([&](int64_t spatial, int64_t) {
    rows.push_back({(walk.plane() + spatial) * channels});
  });
  return rows;
}

// For windows from position `next` on, after those of the walk: nothing where
// what they read is in a cache, or rows are so short that looking for them
// takes longer than to wait for them.
inline RowsAhead rows_ahead(const Task& task, const Walk& walk, int64_t next) {
  constexpr int64_t kShort = 3 * 1024; // elements
  auto row = task.links.axes[2].other_size * task.channels;
  if (task.from_bytes() <= kCoreCacheBytes || row < kShort) {
    return {};
  }
  return {
      first_elements(walk, task.channels),
      first_elements(Walk(task.links, next), task.channels)};
}

// From a row to one that windows some rows below read or write in its place:
// hardware does not expect that. Memory takes longer than a cache.
template <typename T>
uintptr_t rows_ahead_bytes(const Task& task) {
  constexpr int64_t kMost = 24 * 1024; // later, they may be gone again
  const int64_t least =
      task.from_bytes() <= kCoreCacheBytes ? kAheadBytes : 2 * kAheadBytes;
  auto& [depth, height, width] = task.links.axes;
  auto steps = std::max<int64_t>(1, height.size() - 1);
  auto rows = height.of[height.size() - 1].first - height.of[0].first;
  auto below = (rows + steps / 2) / steps; // padding cuts the first off
  int64_t bytes = below * width.other_size * task.channels * sizeof(T);
  bool stay = 0 < bytes && bytes * depth.kernel <= kMost;
  return stay ? ceil_div(least, bytes) * bytes : kAheadBytes;
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
