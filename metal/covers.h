#pragma once

#include "common.h"

// From inputs to the outputs whose windows contain them: backward kernels.
// Loops go from window to window, and from input to input, by addition.

// Where a position lies in a window: `phase` inputs beyond tap `tap`, if it had
// one there.
template <typename Index>
struct Cover {
  Index tap;
  Index phase; // nearer to 0, on either side, than the dilation
  Index rest;  // of an adaptive window: o * in, less its start * out
};

template <typename Index>
Cover<Index> cover_by(Axis<Index> axis, Index o, Index position) {
  const Index start = window_start(axis, o);
  const Index distance = position - start;
  const Index tap = distance / axis.dilation;
  const Index rest = axis.adaptive ? o * axis.in - start * axis.out : Index(0);
  return {tap, distance - tap * axis.dilation, rest};
}

// The same position in the next window.
template <typename Index>
Cover<Index> in_next_window(Axis<Index> axis, Cover<Index> cover) {
  if (axis.adaptive) {
    const Index rest = cover.rest + axis.in - axis.stride * axis.out;
    const bool carries = rest >= axis.out;
    return {
        cover.tap - axis.stride - (carries ? 1 : 0), Index(0),
        rest - (carries ? axis.out : Index(0))};
  }
  const Index phase = cover.phase - axis.stride % axis.dilation;
  const bool borrows = phase < 0;
  return {
      cover.tap - axis.stride / axis.dilation - (borrows ? 1 : 0),
      phase + (borrows ? axis.dilation : Index(0)), Index(0)};
}

// The next position in the same window.
template <typename Index>
Cover<Index> of_next_input(Axis<Index> axis, Cover<Index> cover) {
  const bool is_tap = cover.phase + 1 == axis.dilation;
  return {
      cover.tap + (is_tap ? 1 : 0), is_tap ? Index(0) : cover.phase + 1,
      cover.rest};
}

// The taps of the window: of an adaptive one, in / out and what is left of in,
// rounded up.
template <typename Index>
Index taps_around(Axis<Index> axis, Cover<Index> cover) {
  if (!axis.adaptive) {
    return axis.taps;
  }
  const Index rest = cover.rest + axis.in - axis.stride * axis.out;
  return axis.stride + (rest > 0 ? 1 : 0) + (rest > axis.out ? 1 : 0);
}

// The tap that the position is; -1 where it is none.
template <typename Index>
Index tap_of(Axis<Index> axis, Cover<Index> cover) {
  const bool is_tap = cover.phase == 0 && cover.tap >= 0 &&
      cover.tap < taps_around(axis, cover);
  return is_tap ? cover.tap : Index(-1);
}

// Where the window starts that the position is seen from.
template <typename Index>
Index start_around(Axis<Index> axis, Cover<Index> cover, Index position) {
  return position - cover.tap * axis.dilation - cover.phase;
}

// The windows around some neighbouring positions.
template <typename Index>
struct Covers {
  Range<Index> windows;
  Cover<Index> first; // of the first position by the first window
};

template <typename Index>
Covers<Index> covers_of(Axis<Index> axis, Index position, int neighbours) {
  const Index last = position + (neighbours - 1);
  if (axis.adaptive) {
    const Index first_window = position * axis.out / axis.in;
    const Index last_window = ((last + 1) * axis.out - 1) / axis.in;
    return {
        {first_window, min(axis.out, last_window + 1)},
        cover_by(axis, first_window, position)};
  }
  const Index reach = position + axis.pad_lo;
  const Index last_reach = last + axis.pad_lo;
  const Index last_before = reach - ((axis.taps - 1) * axis.dilation + 1);
  const Index first_window =
      last_before < 0 ? Index(0) : last_before / axis.stride + 1;
  return {
      {first_window, min(axis.out, last_reach / axis.stride + 1)},
      cover_by(axis, first_window, position)};
}

// The taps that TW neighbouring inputs are of one window; -1 where they are
// none.
template <typename Index, int TW>
struct TileTaps {
  Index of[TW];
};

template <typename Index, int TW>
TileTaps<Index, TW> taps_of_tile(Axis<Index> axis, Cover<Index> cover) {
  TileTaps<Index, TW> taps;
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    taps.of[t] = tap_of(axis, cover);
    cover = of_next_input(axis, cover);
  }
  return taps;
}

// The windows around TW neighbouring inputs along W.
template <typename Index>
struct CoverTile {
  Covers<Index> d;
  Covers<Index> h;
  Covers<Index> w;
  int64_t first; // channel of the first of their outputs
};

template <typename Index, int TW>
CoverTile<Index> cover_tile(constant PoolParams& p, Place<Index> at) {
  CoverTile<Index> tile;
  tile.d = covers_of(axis_d<Index>(p), at.d, 1);
  tile.h = covers_of(axis_h<Index>(p), at.h, 1);
  tile.w = covers_of(axis_w<Index>(p), at.first, TW);
  tile.first = 0;
  if (has_none(tile.d.windows) || has_none(tile.h.windows) ||
      has_none(tile.w.windows)) {
    tile.d.windows.last = tile.d.windows.first;
    tile.w.windows.last = tile.w.windows.first;
  } else {
    tile.first = at.channel +
        element(p.y, at.n, tile.d.windows.first, tile.h.windows.first,
                tile.w.windows.first);
  }
  return tile;
}

// With taps_to_tile, the columns of windows that a tile may reach are known
// when the pipeline is made, and the taps of its inputs there. Next to the
// border some do not exist: of these the nearest one is loaded, so that no load
// waits behind a branch, and comes to nothing.

// The first of these columns, which may lie before the first window.
template <typename Index>
Index first_known_column(constant PoolParams& p, Place<Index> at) {
  return (at.first + axis_w<Index>(p).pad_lo - (taps_to_tile - 1)) / stride_w;
}

// Columns that are not known are taken one at a time.
template <int TW>
bool may_reach(int column) {
  return taps_to_tile == 0 || column * stride_w < taps_to_tile - 1 + TW;
}

template <typename Index, int TW>
TileTaps<Index, TW> known_taps(Axis<Index> axis, int column) {
  TileTaps<Index, TW> taps;
  MLX_POOLING_UNROLL
  for (int t = 0; t < TW; ++t) {
    const Index tap = taps_to_tile - 1 + t - column * stride_w;
    taps.of[t] = tap < axis.taps ? tap : Index(-1);
  }
  return taps;
}

// From the tile's first output to output (d, h, w).
template <typename Index>
Index output_at(
    constant PoolParams& p, CoverTile<Index> tile, Index d, Index h, Index w) {
  return (d - tile.d.windows.first) * Index(p.y.step[0]) +
      (h - tile.h.windows.first) * Index(p.y.step[1]) +
      (w - tile.w.windows.first) * Index(p.y.step[2]);
}

// The windows along W around TW neighbouring inputs of a row, which a sweep has
// one of for each of the outputs' rows.
template <typename Index>
struct CoverSweep {
  Covers<Index> w;
  int64_t first; // channel of the first of them
};

template <typename Index, int TW>
CoverSweep<Index> cover_sweep(constant PoolParams& p, Place<Index> at) {
  CoverSweep<Index> sweep;
  sweep.w = covers_of(axis_w<Index>(p), at.first, TW);
  sweep.first = 0;
  if (!has_none(sweep.w.windows)) {
    const Index first = sweep.w.windows.first;
    sweep.first = element(p.y, at.n, at.d, at.h, first) + at.channel;
  }
  return sweep;
}

// From the sweep's first window to window w.
template <typename Index>
Index swept_window(constant PoolParams& p, CoverSweep<Index> sweep, Index w) {
  return (w - sweep.w.windows.first) * Index(p.y.step[2]);
}
