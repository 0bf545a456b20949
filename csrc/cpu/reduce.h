#pragma once

#include <array>

#include "cpu/compare.h"
#include "cpu/memory.h"
#include "cpu/scratch.h"

// What sliding windows are reduced with. Cells hold partial results in scratch
// memory; Cell is L of them in registers. `joined` puts a window before the one
// that follows it, in row-major order, and is associative; `joined_aside` joins
// windows of one column each that lie side by side. Of equal maxima with other
// bits (0 and -0) any is the value, while the tap is the first's.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// All of them, by join(a, b) of a cell and the next.
template <typename Cell, size_t K, typename Join>
MLX_POOLING_INLINE Cell
all_joined(const std::array<Cell, K>& cells, Join join) {
  auto all = cells[0];
  for (size_t k = 1; k < K; ++k) {
    all = join(all, cells[k]);
  }
  return all;
}

template <typename V>
struct Sum {
  using Value = V;
  using Lane = Value;
  static constexpr int kLanes = kVectorBytes / sizeof(Value);
  static constexpr int kCellVectors = 1;
  static constexpr int64_t kCellBytes = sizeof(Value);
  static constexpr bool kWatched = false;
  static constexpr bool kRare = false;

  struct Cells {
    Value* values;

    Cells operator+(int64_t elements) const {
      return {values + elements};
    }
  };

  template <int L>
  struct Cell {
    Vec<Value, L> value;
  };

  static Cells take(Scratch& scratch, int64_t count) {
    return {scratch.take<Value>(count)};
  }

  static constexpr Value identity() {
    return 0;
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> nothing() {
    return of<L>(broadcast<Value, L>(0));
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> outside() {
    return nothing<L>();
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> tap(const Value* values, int64_t) {
    return of<L>(load<L>(values));
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> read(Cells from) {
    return of<L>(load<L>(from.values));
  }

  template <int L>
  MLX_POOLING_INLINE static void write(Cells to, Cell<L> cell) {
    store<L>(to.values, cell.value);
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> joined(Cell<L> a, Cell<L> b) {
    a.value += b.value;
    return a;
  }

  template <int L, size_t K>
  MLX_POOLING_INLINE static Cell<L>
  joined_aside(const std::array<Cell<L>, K>& columns) {
    return all_joined(columns, [](auto a, auto b) MLX_POOLING_LAMBDA {
      return joined<L>(a, b);
    });
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> moved(Cell<L> cell, int64_t) {
    return cell;
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> of(Vec<Value, L> value) {
    Cell<L> cell;
    cell.value = value;
    return cell;
  }
};

// So many taps windows may have for a column beyond the input, whose tap this
// number is, to lose against all of them, also after it is moved.
template <typename Tap>
inline constexpr int64_t kMostColumnTaps = int64_t{1} << (8 * sizeof(Tap) - 2);

// The maximum; with taps, also which tap it is: the last NaN, else the first of
// the largest. Taps count modulo 2^n in lanes of type `TapLane` (void: there
// are none), so that a tap of a window can be kept as one of the whole input
// until the window's start is subtracted.
template <typename V, typename TapLane, Rule kRule>
struct Max {
  static constexpr bool kTaps = !std::is_void_v<TapLane>;
  using Value = V;
  using Tap = std::conditional_t<kTaps, TapLane, uint8_t>;
  using Lane = std::conditional_t<(sizeof(Tap) > sizeof(Value)), Tap, Value>;
  static constexpr int kLanes = kVectorBytes / sizeof(Lane);
  static constexpr int kCellVectors = kTaps ? 2 : 1;
  static constexpr int64_t kCellBytes =
      sizeof(Value) + (kTaps ? sizeof(Tap) : 0);
  // Whether to look out for NaN.
  static constexpr bool kWatched =
      kRule == Rule::fast && std::is_floating_point_v<Value>;
  static constexpr bool kRare = kRule == Rule::exact;

  struct Cells {
    Value* values;
    Tap* taps;

    Cells operator+(int64_t elements) const {
      return {values + elements, taps + (kTaps ? elements : 0)};
    }
  };

  template <int L>
  struct Cell {
    Vec<Value, L> value;
    Vec<Tap, kTaps ? L : 1> tap;
  };

  static Cells take(Scratch& scratch, int64_t count) {
    return {
        scratch.take<Value>(count), kTaps ? scratch.take<Tap>(count) : nullptr};
  }

  static constexpr Value identity() {
    return lowest<Value>();
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> nothing() {
    return of<L>(broadcast<Value, L>(identity()));
  }

  // Of a column beyond the input, which loses against any tap.
  template <int L>
  MLX_POOLING_INLINE static Cell<L> outside() {
    return moved<L>(nothing<L>(), kMostColumnTaps<Tap>);
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> tap(const Value* values, int64_t tap) {
    return moved<L>(of<L>(load<L>(values)), tap);
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> read(Cells from) {
    auto cell = of<L>(load<L>(from.values));
    if constexpr (kTaps) {
      cell.tap = load<L>(from.taps);
    }
    return cell;
  }

  template <int L>
  MLX_POOLING_INLINE static void write(Cells to, Cell<L> cell) {
    store<L>(to.values, cell.value);
    if constexpr (kTaps) {
      store<L>(to.taps, cell.tap);
    }
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> joined(Cell<L> a, Cell<L> b) {
    if constexpr (kRule == Rule::exact) {
      auto better = replaces<kRule>(b.value, a.value);
      a.value = chosen<L>(better, b.value, a.value);
      if constexpr (kTaps) {
        a.tap = chosen<L>(resize_mask<Tap, L>(better), b.tap, a.tap);
      }
    } else {
      if constexpr (kTaps) {
        a.tap = chosen_where_larger<Tap, L>(b.value, a.value, b.tap, a.tap);
      }
      a.value = larger<Value, L>(b.value, a.value);
    }
    return a;
  }

  template <int L, size_t K>
  MLX_POOLING_INLINE static Cell<L>
  joined_aside(const std::array<Cell<L>, K>& columns) {
    if constexpr (!kTaps) {
      return all_joined(columns, [](auto a, auto b) MLX_POOLING_LAMBDA {
        return joined<L>(a, b);
      });
    } else if constexpr (kRule == Rule::exact || L == 1) {
      return all_joined(columns, [](auto a, auto b) MLX_POOLING_LAMBDA {
        return exactly_joined_aside<L>(a, b);
      });
    } else {
      auto cell = columns[0];
      for (size_t k = 1; k < K; ++k) {
        cell.value = larger<Value, L>(columns[k].value, cell.value);
      }
      auto tap = [&](size_t k) MLX_POOLING_LAMBDA {
        return kept_where_equal<Tap, L>(
            columns[k].value, cell.value, columns[k].tap);
      };
      cell.tap = tap(0);
      for (size_t k = 1; k < K; ++k) {
        cell.tap = smaller<L>(tap(k), cell.tap);
      }
      return cell;
    }
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> moved(Cell<L> cell, int64_t taps) {
    if constexpr (kTaps) {
      cell.tap += broadcast<Tap, L>(static_cast<Tap>(taps));
    }
    return cell;
  }

  template <int L>
  MLX_POOLING_INLINE static Cell<L> of(Vec<Value, L> value) {
    Cell<L> cell;
    cell.value = value;
    cell.tap = broadcast<Tap, kTaps ? L : 1>(0);
    return cell;
  }

 private:
  // Taps of columns alternate in row-major order.
  template <int L>
  MLX_POOLING_INLINE static Cell<L> exactly_joined_aside(Cell<L> a, Cell<L> b) {
    auto is_before = resize_mask<Value, L>(b.tap < a.tap);
    auto is_after = resize_mask<Value, L>(b.tap > a.tap);
    auto better = (b.value > a.value) | ((b.value == a.value) & is_before) |
        ((b.value != b.value) & ((a.value == a.value) | is_after));
    return {
        chosen<L>(better, b.value, a.value),
        chosen<L>(resize_mask<Tap, L>(better), b.tap, a.tap)};
  }
};

// to = `count` cells of a, each joined with that of b, whose taps are so many
// further on, unless b is null.
template <typename Op>
MLX_POOLING_INLINE void join_cells(
    typename Op::Cells a,
    const typename Op::Cells* b,
    int64_t taps,
    int64_t count,
    typename Op::Cells to) {
  constexpr int kLanes = Op::kLanes;
  const auto after = b ? *b : a;
  for (int64_t i = 0; i < count; i += kLanes) {
    auto cell = Op::template read<kLanes>(a + i);
    if (b) {
      auto next = Op::template read<kLanes>(after + i);
      cell = Op::template joined<kLanes>(
          cell, Op::template moved<kLanes>(next, taps));
    }
    Op::template write<kLanes>(to + i, cell);
  }
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
