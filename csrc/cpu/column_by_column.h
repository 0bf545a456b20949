#pragma once

#include "cpu/column_ring.h"
#include "cpu/ends.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/rows_ahead.h"
#include "cpu/scratch.h"
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

// Calls visit<T>() with what so many channels of T are compared as: those that
// do not fill a vector as floats, of which any that columns are made of do.
template <typename T, typename Visit>
void with_columns_of(int64_t channels, Visit visit) {
  if constexpr (is_ordered<T> && kVectorBytes == 64) {
    if (channels < kFullLanes<Arithmetic<T>>) {
      return visit.template operator()<typename T::Float>();
    }
  }
  visit.template operator()<T>();
}

// Calls visit(part, next), of positions in one row each, for what of each row
// is among `begin` to `end` of the task's, so much at a time as stays in cache
// from one block of channels to the next; the last is its own next. Rows come
// in bands, those of all planes before the next, so that what planes have in
// common is still there.
template <typename Visit>
void for_each_row(const Task& task, int64_t begin, int64_t end, Visit visit) {
  constexpr int64_t kCachedElements = 64 * 1024;
  auto& [depth, height, width] = task.links.axes;
  auto rows =
      kCachedElements / (width.other_size * task.channels) / depth.kernel;
  auto band = std::clamp<int64_t>(rows - height.kernel + 1, 1, height.size());
  // What parts of a row have in common is visited twice.
  auto most =
      std::max(ceil_div(kCachedElements, task.channels), 8 * width.kernel);
  auto in_bands = [&](int64_t row) {
    auto plane = depth.size() * height.size();
    auto first = row % plane / (band * depth.size()) * band;
    auto size = std::min(band, height.size() - first);
    auto rest = row % plane - first * depth.size();
    return (row / plane * depth.size() + rest / size) * height.size() + first +
        rest % size;
  };
  auto part_at = [&](int64_t i) {
    auto row = i / width.size();
    auto part_end = std::min({end, (row + 1) * width.size(), i + most});
    auto shift = (in_bands(row) - row) * width.size();
    return Range{i + shift, part_end + shift};
  };
  auto part = part_at(begin);
  for (auto i = begin; i < end;) {
    i += part.size();
    auto next = i < end ? part_at(i) : part;
    visit(part, next);
    part = next;
  }
}

// Whether registers hold columns, of a few vectors of channels at a time.
// Smaller vectors than lines would be pieces of them, pushed out of the cache
// before their neighbours are read: instead, a ColumnRing holds columns.
inline constexpr bool kColumnsInRegisters = fills_lines<kVectorBytes>;

// Reduces the columns of a row of windows, each once: those that neighbours,
// one position apart, have in common are kept. The ends are copied to where no
// store can change them.
template <CellEnds Ends, int K>
class ColumnByColumn {
 public:
  ColumnByColumn(const Task& task, const Ends& ends)
      : task_(task),
        from_(static_cast<const Stored*>(task.from)),
        ends_(ends) {}

  // False if there is a NaN that the rule is not for.
  bool run(Range part, Range next) const {
    const Walk walk(task_.links, part.begin);
    const auto ahead = rows_ahead(task_, walk, next.begin);
    bool is_done = true;
    if constexpr (kColumnsInRegisters) {
      for_each_block<typename Op::Lane, kLanes, kMostVectors>(
          task_.channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
            is_done = reduce<U>(walk, part, ahead, c) && is_done;
          });
    } else {
      for_each_ringed_block<Op>(task_.channels, K, [&](Range block) {
        is_done = reduce_in_ring(walk, part, ahead, block) && is_done;
      });
    }
    return is_done;
  }

 private:
  using Op = typename Ends::Op;
  using Stored = typename Ends::Stored;
  static constexpr int64_t kSize = sizeof(Stored);
  static constexpr int kLanes = Op::kLanes;
  using Cell = typename Op::template Cell<kLanes>;
  template <int U>
  using Watch = NanWatch<typename Op::Value, kLanes, U>;
  static constexpr int kMostVectors = kRegisters / (K * Op::kCellVectors);

  // Some channels, of which registers hold the columns.
  template <int U>
  bool
  reduce(const Walk& walk, Range part, const RowsAhead& next_rows, int64_t c)
      const {
    const auto channels = task_.channels;
    auto ends = ends_;
    if constexpr (!fills_lines<U * kLanes * kSize>) {
      ends.stay_in_caches();
    }
    auto ahead = positions_ahead(U * kLanes * kSize) * channels * kSize;
    Watch<U> watch;
    Cell columns[K][U];
    auto& width = task_.links.axes[2];
    auto w = walk.w() + *width.origin();
    auto next = [&]() MLX_POOLING_LAMBDA {
      for (int k = 1; k < K; ++k) {
        for (int u = 0; u < U; ++u) {
          columns[k - 1][u] = columns[k][u];
        }
      }
      if (w >= 0 && w < width.other_size) {
        column<U>(ends, walk, w, c, ahead, columns[K - 1], watch);
      } else {
        std::fill_n(columns[K - 1], U, Op::template outside<kLanes>());
      }
      ++w;
    };
    for (int k = 1; k < K; ++k) {
      next();
    }
    // All blocks of channels together ask for the next rows.
    auto* asked = from_ + c * part.size();
    for (auto i = part.begin; i < part.end; ++i) {
      next();
      next_rows.fetch<U * kLanes * kSize>(asked);
      asked += U * kLanes;
      auto common =
          ends.writing(walk.d(), walk.h(), walk.w() + (i - part.begin));
      for (int u = 0; u < U; ++u) {
        auto at = i * channels + c + u * kLanes;
        ends.template write_cell<kLanes>(
            at, ahead,
            window([&](int k) MLX_POOLING_LAMBDA { return columns[k][u]; }),
            common);
      }
    }
    return !saw_nan(watch);
  }

  // Some channels, position after position.
  bool reduce_in_ring(
      const Walk& walk,
      Range part,
      const RowsAhead& next_rows,
      Range block) const {
    // Each vector takes a cell, what it is joined with and a sum of the watch.
    constexpr int kMost = kRegisters / (3 * Op::kCellVectors);
    const auto channels = task_.channels;
    auto ends = ends_;
    if (!are_lines(block, kSize)) {
      ends.stay_in_caches();
    }
    auto ahead = positions_ahead(block.size() * kSize) * channels * kSize;
    NanWatch<typename Op::Value, kLanes> watch;
    Scratch scratch;
    ColumnRing<Op, K> ring(block.size(), scratch);
    auto& width = task_.links.axes[2];
    auto w = walk.w() + *width.origin();
    auto for_each_vector = [&](auto visit) MLX_POOLING_LAMBDA {
      for_each_block<typename Op::Lane, kLanes, kMost>(block.size(), visit);
    };
    auto next = [&]() MLX_POOLING_LAMBDA {
      if (w >= 0 && w < width.other_size) {
        const auto newest = ring.next();
        for_each_vector([&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Cell cells[U];
          column<U>(ends, walk, w, block.begin + c, ahead, cells, watch);
          for (int u = 0; u < U; ++u) {
            Op::template write<kLanes>(newest + (c + u * kLanes), cells[u]);
          }
        });
      } else {
        ring.next_outside();
      }
      ++w;
    };
    for (int k = 1; k < K; ++k) {
      next();
    }
    // All blocks of channels together ask for the next rows.
    auto* asked = from_ + block.begin * part.size();
    for (auto i = part.begin; i < part.end; ++i) {
      next();
      auto first = i * channels + block.begin;
      auto common =
          ends.writing(walk.d(), walk.h(), walk.w() + (i - part.begin));
      for_each_vector([&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
        next_rows.fetch<U * kLanes * kSize>(asked + c);
        for (int u = 0; u < U; ++u) {
          auto at = c + u * kLanes;
          ends.template write_cell<kLanes>(
              first + at, ahead, window([&](int k) MLX_POOLING_LAMBDA {
                return Op::template read<kLanes>(ring[k] + at);
              }),
              common);
        }
      });
      asked += block.size();
    }
    return !saw_nan(watch);
  }

  // A window, of its K columns.
  template <typename Read>
  MLX_POOLING_INLINE static Cell window(Read column) {
    std::array<Cell, K> columns;
    for (int k = 0; k < K; ++k) {
      columns[k] = Op::template moved<kLanes>(column(k), k);
    }
    return Op::template joined_aside<kLanes>(columns);
  }

  template <int kPlaces>
  MLX_POOLING_INLINE static bool saw_nan(const Watch<kPlaces>& watch) {
    if constexpr (Op::kWatched) {
      return watch.saw_nan();
    }
    return false;
  }

  // Column w of the walk's windows, over their rows.
  template <int U, int kPlaces>
  MLX_POOLING_INLINE void column(
      const Ends& ends,
      const Walk& walk,
      int64_t w,
      int64_t c,
      uintptr_t ahead,
      Cell* cells,
      Watch<kPlaces>& watch) const {
    const auto channels = task_.channels;
    const auto first = (walk.plane() + w) * channels + c;
    Watch<U> column_watch;
    auto see = [&]<bool kFirst>(const LinkedRow& row) MLX_POOLING_LAMBDA {
      auto at = first + row.spatial * channels;
      auto common = ends.reading(row, w);
      for (int u = 0; u < U; ++u) {
        auto cell = ends.template read_cell<kLanes>(at + u * kLanes, common);
        if constexpr (Op::kWatched) {
          column_watch.see(cell.value, u);
        }
        cells[u] = kFirst ? cell : Op::template joined<kLanes>(cells[u], cell);
      }
    };
    see.template operator()<true>(walk.first_row());
    walk.for_each_later_row([&](const LinkedRow& row) MLX_POOLING_LAMBDA {
      see.template operator()<false>(row);
    });
    if constexpr (Op::kWatched) {
      watch.join(column_watch);
    }
    auto newest = first + walk.last_row() * channels;
    fetch_all_ahead<U * kLanes * sizeof(Stored)>(from_ + newest, ahead);
  }

  const Task& task_;
  const Stored* from_;
  const Ends& ends_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
