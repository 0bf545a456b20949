#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/compare.h"
#include "cpu/ends.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/method.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/permute.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces each window along its rows, of few channels: the elements of a row
// fill vectors, whatever positions and channels they are of. P vectors hold a
// whole number of positions, so that lanes keep their channel from P to P; in
// the end those of the same channel are joined.
template <CellEnds Ends, int P>
class AlongRows {
 public:
  explicit AlongRows(const Task& task)
      : channels_(task.channels),
        positions_of_vectors_(P * kLanes / task.channels),
        elements_(
            task.from_bytes() /
            static_cast<int64_t>(sizeof(typename Ends::Stored))) {
    for (int j = 0; j < kLanes; ++j) {
      lanes_[j] = static_cast<Index>(j);
    }
    for (size_t e = 0; e < positions_.size(); ++e) {
      positions_[e] = static_cast<Position>(e / channels_);
    }
  }

  // Window i, which is the walk's. False if nothing was written, since there is
  // a NaN that the rule is not for.
  bool reduce(const Ends& ends, const Walk& walk, int64_t i) const {
    Row row{ends, 0, 0};
    std::array<Cell, P> cells;
    cells.fill(Op::template nothing<kLanes>());
    Watch watch;
    bool is_first = true;
    walk.for_each_row([&](int64_t spatial, int64_t tap) MLX_POOLING_LAMBDA {
      row.at = (walk.plane() + spatial) * channels_;
      row.tap = tap;
      auto count = walk.columns() * channels_;
      if (count > kPart) {
        count = join_parts(row, count, is_first, cells, watch);
        is_first = false;
      }
      join_row(row, count, is_first, cells, watch);
      is_first = false;
    });
    if (Op::kWatched && watch.saw_nan()) {
      return false;
    }
    write(ends, walk, i, cells);
    return true;
  }

 private:
  using Op = typename Ends::Op;
  using Value = typename Op::Value;
  static constexpr int kLanes = Op::kLanes;
  using Cell = typename Op::template Cell<kLanes>;
  using Index = OffsetLane<Value, uint8_t>;
  static constexpr bool kTaps = requires(Cell cell) { cell.tap[0]; };
  // Of vectors, that do not wait for each other. Taps would have to tell which
  // of them came first.
  static constexpr int kChains = kTaps ? 1 : P == 1 ? 4 : 2;
  static constexpr int64_t kPart = kLongestChain * kChains * P * kLanes;
  using Watch = NanWatch<Value, kLanes, kChains * P>;
  using Position = OffsetLane<Value, uint32_t>;

  struct Row {
    const Ends& ends;
    int64_t at; // of its first element
    int64_t tap;
  };

  // Parts of a long row, which leave one behind.
  [[gnu::cold, gnu::noinline]] int64_t join_parts(
      Row& row,
      int64_t count,
      bool is_first,
      std::array<Cell, P>& cells,
      Watch& watch) const {
    for (; count > kPart; count -= kPart, is_first = false) {
      join_row(row, kPart, is_first, cells, watch);
      row.at += kPart;
      row.tap += kPart / channels_;
    }
    return count;
  }

  // Whole chains first, then whole vectors.
  MLX_POOLING_INLINE void join_row(
      Row row,
      int64_t count,
      bool is_first,
      std::array<Cell, P>& cells,
      Watch& watch) const {
    join_chains<kChains>(row, count, is_first, cells, watch);
    if constexpr (kChains > 1) {
      join_chains<1>(row, count, is_first, cells, watch);
    }
    if (count > 0) {
      for (int p = 0; p < P; ++p) {
        auto cell = part_of(row.ends, row.at, p * kLanes, count);
        cell = seen(cell, p, row.tap, watch);
        cells[p] =
            is_first ? cell : Op::template joined<kLanes>(cells[p], cell);
      }
    }
  }

  // Of a row of `count` elements, as many as make N whole chains, which are
  // left behind.
  template <int N>
  MLX_POOLING_INLINE void join_chains(
      Row& row,
      int64_t& count,
      bool& is_first,
      std::array<Cell, P>& cells,
      Watch& watch) const {
    constexpr int64_t kStep = N * P * kLanes;
    if (count < kStep) {
      return;
    }
    const auto ends = row.ends; // where no store can change it
    auto next = [&](int n) MLX_POOLING_LAMBDA {
      auto at = row.at + n * kLanes;
      ends.template fetch_cell_ahead<kLanes>(at, 2 * kAheadBytes);
      return seen(ends.template read_cell<kLanes>(at, {}), n, row.tap, watch);
    };
    std::array<Cell, N * P> chains;
    for (int n = 0; n < N * P; ++n) {
      chains[n] = next(n);
    }
    auto go_on = [&]() MLX_POOLING_LAMBDA {
      row.at += kStep;
      row.tap += N * positions_of_vectors_;
      count -= kStep;
    };
    go_on();
    while (count >= kStep) {
      for (int n = 0; n < N * P; ++n) {
        chains[n] = Op::template joined<kLanes>(chains[n], next(n));
      }
      go_on();
    }
    for (int n = 0; n < N * P; ++n) {
      cells[n % P] = is_first && n < P
          ? chains[n]
          : Op::template joined<kLanes>(cells[n % P], chains[n]);
    }
    is_first = false;
  }

  // Vector n of those from a tap on.
  MLX_POOLING_INLINE Cell
  seen(Cell cell, int n, int64_t tap, Watch& watch) const {
    if constexpr (Op::kWatched) {
      watch.see(cell.value, n);
    }
    if constexpr (kTaps) {
      cell.tap = load<kLanes>(positions_.data() + n * kLanes);
      cell = Op::template moved<kLanes>(cell, tap);
    }
    return cell;
  }

  // The vector from element j on of a row that ends at `count`.
  MLX_POOLING_INLINE Cell
  part_of(const Ends& ends, int64_t at, int64_t j, int64_t count) const {
    if (j + kLanes <= count) {
      return ends.template read_cell<kLanes>(at + j, {});
    }
    auto nothing = Op::template nothing<kLanes>();
    if (j >= count) {
      return nothing;
    }
    auto cell = nothing;
    if (at + j + kLanes <= elements_) {
      cell = ends.template read_cell<kLanes>(at + j, {});
    } else {
      for (auto k = j; k < count; ++k) {
        cell.value[k - j] = ends.template read_cell<1>(at + k, {}).value;
      }
    }
    auto is_in_row = load<kLanes>(lanes_.data()) <
        broadcast<Index, kLanes>(static_cast<Index>(count - j));
    cell.value = chosen<kLanes>(is_in_row, cell.value, nothing.value);
    return cell;
  }

  struct Buffer {
    typename Op::Cells cells() {
      if constexpr (kTaps) {
        return {values, taps};
      } else if constexpr (requires { Op::Cells::taps; }) {
        return {values, nullptr};
      } else {
        return {values};
      }
    }

    alignas(64) Value values[P * kLanes];
    alignas(64) Position taps[kTaps ? P * kLanes : 1];
  };

  MLX_POOLING_INLINE void write(
      const Ends& ends,
      const Walk& walk,
      int64_t i,
      std::array<Cell, P> cells) const {
    Buffer buffers[2];
    auto joined = buffers[0].cells();
    if constexpr (P == 1) {
      join_lanes<kLanes / 2>(cells[0]);
      Op::template write<kLanes>(joined, cells[0]);
    } else {
      joined = join_positions(cells, buffers);
    }
    auto common = ends.writing(walk.d(), walk.h(), walk.w());
    for_each_lane<kLanes>(
        channels_, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
          ends.template write_cell<L>(
              i * channels_ + c, kAheadBytes, Op::template read<L>(joined + c),
              common);
        });
  }

  // Half of the positions that are left are joined with the other half: in one
  // vector, of which the lanes behind hold anything then,
  template <int kHalf>
  MLX_POOLING_INLINE void join_lanes(Cell& cell) const {
    if constexpr (kHalf > 0) {
      if (kHalf >= channels_) {
        auto other = cell;
        other.value = rotated<kHalf>(cell.value);
        if constexpr (kTaps) {
          other.tap = rotated<kHalf>(cell.tap);
        }
        cell =
            Op::template joined_aside<kLanes>(std::array<Cell, 2>{cell, other});
        join_lanes<kHalf / 2>(cell);
      }
    }
  }

  // or in memory.
  MLX_POOLING_INLINE typename Op::Cells
  join_positions(const std::array<Cell, P>& cells, Buffer (&buffers)[2]) const {
    auto from = buffers[0].cells();
    auto to = buffers[1].cells();
    for (int p = 0; p < P; ++p) {
      Op::template write<kLanes>(from + p * kLanes, cells[p]);
    }
    for (auto half = P * kLanes / 2; half >= channels_; half /= 2) {
      for_each_lane<kLanes>(
          half, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
            using Pair = std::array<typename Op::template Cell<L>, 2>;
            Pair pair{
                Op::template read<L>(from + j),
                Op::template read<L>(from + (j + half))};
            Op::template write<L>(to + j, Op::template joined_aside<L>(pair));
          });
      std::swap(from, to);
    }
    return from;
  }

  int64_t channels_;
  int64_t positions_of_vectors_;
  int64_t elements_; // of the array
  std::array<Index, kLanes> lanes_;
  std::array<Position, kTaps ? P * kLanes : 0> positions_; // of elements
};

// Calls visit<P>() for so many channels, which method.cpp limits.
template <typename Visit>
void with_period(int64_t channels, Visit visit) {
  if (along_rows_period(channels) == 3) {
    return visit.template operator()<3>();
  }
  visit.template operator()<1>();
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
