#pragma once

#include "cpu/kernels.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Calls visit<K>() for windows of K columns, which method.cpp limits.
template <typename Visit>
void with_columns(int64_t kernel, Visit visit) {
  switch (kernel) {
    case 2:
      return visit.template operator()<2>();
    case 3:
      return visit.template operator()<3>();
    case 4:
      return visit.template operator()<4>();
    default:
      return visit.template operator()<5>();
  }
}

// Calls visit(begin, end) for what of each row is among `begin` to `end` of the
// task's positions. Rows come in bands, those of all planes before the next, so
// that what planes have in common is still in cache.
template <typename Visit>
void for_each_row(const Task& task, int64_t begin, int64_t end, Visit visit) {
  constexpr int64_t kCached = 64 * 1024;
  auto& [depth, height, width] = task.links.axes;
  auto rows = kCached / (width.other_size * task.channels) / depth.kernel;
  auto band = std::clamp<int64_t>(rows - height.kernel + 1, 1, height.size());
  auto in_bands = [&](int64_t row) {
    auto plane = depth.size() * height.size();
    auto first = row % plane / (band * depth.size()) * band;
    auto size = std::min(band, height.size() - first);
    auto rest = row % plane - first * depth.size();
    return (row / plane * depth.size() + rest / size) * height.size() + first +
        rest % size;
  };
  for (auto i = begin, next = i; i < end; i = next) {
    auto row = i / width.size();
    next = std::min(end, (row + 1) * width.size());
    auto shift = (in_bands(row) - row) * width.size();
    visit(i + shift, next + shift);
  }
}

// Reduces the columns of a row of windows, each once: those that neighbours,
// one position apart, have in common stay in registers. `Ends` has
//
//   Stored, Op: the type of elements, and what reduces them
//   reading(row, w): what the elements of that position have in common
//   read_cell(at, common): the cell of L of them, from `at` on
//   writing(d, h, w), write_cell(at, ahead, cell, common): the same of results
template <typename Ends, int K>
class ColumnByColumn {
 public:
  ColumnByColumn(const Task& task, const Ends& ends)
      : links_(task.links),
        channels_(task.channels),
        from_(static_cast<const Stored*>(task.from)),
        ends_(ends) {}

  // Windows [begin, end) of one row. False if there is a NaN that the rule is
  // not for.
  bool run(int64_t begin, int64_t end) const {
    const Walk walk(links_, begin);
    bool is_done = true;
    for_each_block<typename Op::Lane, kLanes, kMostVectors>(
        channels_, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          is_done = reduce<U>(walk, begin, end, c) && is_done;
        });
    return is_done;
  }

 private:
  using Op = typename Ends::Op;
  using Stored = typename Ends::Stored;
  static constexpr int kLanes = Op::kLanes;
  using Cell = typename Op::template Cell<kLanes>;
  using Watch = NanWatch<typename Op::Value, kLanes>;
  static constexpr int kMostVectors = kRegisters / (K * Op::kCellVectors);

  template <int U>
  bool reduce(const Walk& walk, int64_t begin, int64_t end, int64_t c) const {
    auto& width = links_.axes[2];
    constexpr int64_t kSize = sizeof(Stored);
    auto ahead = positions_ahead(U * kLanes * kSize) * channels_ * kSize;
    Watch watch;
    Cell columns[K][U];
    auto w = walk.w() + *width.origin;
    auto next = [&]() MLX_POOLING_LAMBDA {
      for (int k = 1; k < K; ++k) {
        for (int u = 0; u < U; ++u) {
          columns[k - 1][u] = columns[k][u];
        }
      }
      if (w >= 0 && w < width.other_size) {
        column<U>(walk, w, c, ahead, columns[K - 1], watch);
      } else {
        for (int u = 0; u < U; ++u) {
          columns[K - 1][u] = Op::template outside<kLanes>();
        }
      }
      ++w;
    };
    for (int k = 1; k < K; ++k) {
      next();
    }
    for (auto i = begin; i < end; ++i) {
      next();
      auto common = ends_.writing(walk.d(), walk.h(), walk.w() + (i - begin));
      for (int u = 0; u < U; ++u) {
        auto cell = columns[0][u];
        for (int k = 1; k < K; ++k) {
          cell = Op::template joined_aside<kLanes>(
              cell, Op::template moved<kLanes>(columns[k][u], k));
        }
        auto at = i * channels_ + c + u * kLanes;
        ends_.template write_cell<kLanes>(at, ahead, cell, common);
      }
    }
    if constexpr (Op::kWatched) {
      return !watch.saw_nan();
    }
    return true;
  }

  // Column w of the walk's windows, over their rows.
  template <int U>
  MLX_POOLING_INLINE void column(
      const Walk& walk,
      int64_t w,
      int64_t c,
      uintptr_t ahead,
      Cell* cells,
      Watch& watch) const {
    bool is_first = true;
    walk.for_each_linked_row([&](const LinkedRow& row) MLX_POOLING_LAMBDA {
      auto at = (walk.plane() + row.spatial + w) * channels_ + c;
      auto common = ends_.reading(row, w);
      for (int u = 0; u < U; ++u) {
        auto cell = ends_.template read_cell<kLanes>(at + u * kLanes, common);
        if constexpr (Op::kWatched) {
          watch.see(cell.value, u);
        }
        cells[u] =
            is_first ? cell : Op::template joined<kLanes>(cells[u], cell);
      }
      is_first = false;
    });
    auto newest = (walk.plane() + walk.last_row() + w) * channels_ + c;
    fetch_all_ahead<U * kLanes * sizeof(Stored)>(from_ + newest, ahead);
  }

  const Links& links_;
  int64_t channels_;
  const Stored* from_;
  const Ends& ends_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
