#pragma once

#include <optional>

#include "cpu/side_by_side.h"

namespace mlx_pooling::cpu {

// Which of the CPU's kernels a pooling operation takes.
enum class Method {
  walk, // visit every tap of every window, or every window of every input
  side_by_side,     // visit every tap of windows in one vector: SideBySide
  along_rows,       // visit vectors of neighbouring taps: AlongRows
  column_by_column, // visit every column of a row of windows once:
                    // ColumnByColumn
  quads_by_column,  // of four rows of windows together: MaxQuads
  sweep,            // reduce along one axis after the other: Sweep
  row_by_row,       // reduce parts of a window's rows, then those: RowByRow
  axis_by_axis,     // look for the winners of all windows along one axis after
                    // the other: CollectAxisByAxis
  winners,          // visit every window's winner: HandOut
  spread,           // visit every window, and write the gradients of its inputs
  spread_side_by_side, // of several windows at once
  fill,                // visit each row of a window once: Fill
  place,               // visit every window's winner, which no other has
};

struct Choice {
  Method method;
  SideBySide side_by_side = {}; // of methods named so
  double cost = 0; // of an element of `to`, in nanoseconds at most, or unknown
};

enum class Reduction {
  sum,
  gradient,         // a sum as well, of an average's cotangents
  divided_gradient, // of those that are divided by different numbers
  maximum,
  winner, // the maximum, and which tap it is
};

inline bool is_gradient(Reduction reduction) {
  return reduction == Reduction::gradient ||
      reduction == Reduction::divided_gradient;
}

// What is computed with.
struct Elements {
  int64_t bytes;            // of one as it is computed
  bool is_widened;          // from fewer, as it is stored
  bool has_alike;           // whether there is code for windows that are alike
  bool are_ordered = false; // half types, as integers where those fill vectors
};

Choice method_of_reduction(
    const Links& links,
    int64_t channels,
    const Elements& elements,
    Reduction reduction);

// How to make a gradient where no two windows share an input, if that helps.
std::optional<Choice> method_of_spreading(
    const Links& covers,
    const Geometry& geometry,
    int64_t lane,
    Reduction reduction);

// Vectors after which lanes of AlongRows have the same channel again, if any.
inline int64_t along_rows_period(int64_t channels) {
  return channels % 3 == 0 ? 3 : 1;
}

// Of max_pool_scatter.
Choice method_of_scatter(
    const Links& covers,
    const Geometry& geometry,
    int64_t lane,
    int64_t offset_bytes);

} // namespace mlx_pooling::cpu
