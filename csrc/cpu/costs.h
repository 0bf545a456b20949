#pragma once

#include "cpu/links.h"
#include "cpu/method.h"
#include "cpu/side_by_side.h"

namespace mlx_pooling::cpu {

// Costs are nanoseconds on one CPU with AVX-512, those of axis_by_axis such
// that it is taken where it was faster with AVX2. Their ratios choose a method;
// how large they are tells only whether threads are worth waking.

struct Cost {
  double visit;           // of a vector of outputs
  double tap;             // of one of its taps, where windows are walked
  double visit_alike = 0; // the same of windows that are alike; 0: none are
  double tap_alike = 0;
  double sweep = 0;      // of a vector operation, for each of its elements
  double aside = 0;      // of joining a column to the one before
  double across = 0;     // of joining a vector's lanes
  double several = 0.85; // taps of several vectors at once, each, in taps
  double alone = 1;      // that of one element of few channels, in taps
  double in_common = 0;  // of what not too many channels share, where walked
  bool halves = false;   // walked in vectors that channels fill
};

Cost cost_of(Reduction reduction, const Elements& elements);

// A tap is a cotangent, looked at.
inline constexpr Cost kCover{.visit = 3, .tap = 0.9, .several = 0.6};

inline constexpr int64_t kFloat = 4;   // bytes
inline constexpr int64_t kVector = 16; // floats

// As wide as AVX-512's, of which there are twice as many registers, too.
bool has_wide_vectors();

// Of the longest window.
double taps(const Links& links);

// Of those of `from` there are so many for each of `to`.
double ratio(const AxisLinks& links);

// What each element of `to` costs; infinity from those that tell that there is
// no such kernel. `lane` is what one takes as it is computed, in bytes.
double
walk_cost(const Links& links, int64_t channels, int64_t lane, const Cost& cost);
double side_by_side_cost(
    const Links& links,
    int64_t channels,
    const SideBySide& side,
    const Cost& cost);
double along_rows_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost);
double column_by_column_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost);
double row_by_row_cost(const Links& links, int64_t channels, int64_t lane);
double sweep_cost(
    const Links& links, int64_t channels, int64_t lane, const Cost& cost);
double axis_by_axis_cost(const Links& covers, int64_t channels);
double winners_cost(const Links& covers, const Geometry& geometry);

} // namespace mlx_pooling::cpu
