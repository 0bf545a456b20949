#pragma once

#include <concepts>

#include "cpu/links.h"
#include "cpu/walk.h"

// What kernels read and write through, so that maxima and sums have one code.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Cells of L elements, from element `at` of `from` or `to` on, where Stored is
// the type of elements, and Op what reduces them. Positions are of row-major
// arrays; `reading` and `writing` give what the elements of one have in common.
// Some are asked for `ahead` bytes before they are come to.
template <typename Ends>
concept CellEnds = requires(
    Ends& ends,
    const Ends& fixed,
    const LinkedRow& row,
    int64_t at,
    uintptr_t ahead,
    typename Ends::Op::template Cell<1> cell) {
  typename Ends::Stored;
  {
    fixed.template read_cell<1>(at, fixed.reading(row, at))
  } -> std::convertible_to<decltype(cell)>;
  fixed.template fetch_cell_ahead<1>(at, ahead);
  fixed.template write_cell<1>(at, ahead, cell, fixed.writing(at, at, at));
  ends.stay_in_caches(); // to store nothing around them from then on
};

// Also `count` elements from channel `at` of a position on. Of runs of
// positions that are alike, what they have in common is the same. Where the
// array holds what is reduced, values() points to it, else to nothing.
template <typename Ends>
concept RowEnds = CellEnds<Ends> &&
    requires(Ends& ends,
             const LinkedRow& row,
             int64_t at,
             int64_t count,
             uintptr_t ahead,
             typename Ends::Op::Value* values) {
      ends.read(at, at, count, ahead, ends.reading(row, at), values);
      { ends.read_alike() } -> std::same_as<Range>;
      { ends.written_alike() } -> std::same_as<Range>;
      { ends.values() } -> std::same_as<const typename Ends::Op::Value*>;
    };

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
