#include "metal/select.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "metal/occupancy.h"
#include "params.h"

// clang-format off
//
// Which kernels a geometry gets. Loads are of vectors, for one stored.
//
// windows             forward    backward           because
// ------------------  ---------  -----------------  --------------------------
// small: at most 14   max_pool   max_pool_scatter   one launch, no memory but
// loads (4 if one     avg_pool   avg_pool_grad      that of the results
// pass would do)
//   of few channels,  max_pool_  max_pool_scatter_  channels of neighbours fill
//   which do not      flat       flat               vectors: as many loads as of
//   fill vectors      avg_pool_  avg_pool_grad_     full ones, not one for each
//   (runs.cpp)        flat       flat               channel
// large, and passes   max_sweep  max_scatter_sweep  13/1: 5 loads, not 169; a
// halve the loads     avg_sweep  avg_grad_sweep     launch and a temporary an
//   or one pass saves                               axis are worth it, and one
//   a quarter                                       pass takes neither
// of 16 taps or more  max_pool_  as above           few threads leave a GPU
// and fewer than      lanes                         idle: 2 to 32 lanes of a
// 2048 vectors of     avg_pool_                     simdgroup share a window,
// outputs             lanes                         4 taps each or more
//   of 64 or more,    the same   as above           memory would wait for
//   that would be                                   threads: lanes have 32 taps
//   one launch, and                                 each or more, and none are
//   fewer than 32768                                without channels
//   of 256 or more,   the same,  as above           a launch over slices of the
//   and more lanes    twice                         windows, and one over what
//   than read 64                                    these leave, keep as many
//   bytes of each                                   threads busy as there is
//   position, or 32                                 work for
//
// a thread computes               because
// ---------------------  -------  --------------------------------------------
// windows that overlap   4 x 2    share rows and columns: 3/1 loads 3, not 9;
// along H and W                   3/2 loads 5.6. A row's columns are compared
//                                 once for all of its windows: 2 x 4 have more
//   in vectors of 8      2 x 2    4 and 6.3; more would not fit in registers
//   with few threads,    4 x 1    4.5 and 6.8; compares less than 1 x 4, which
//   or one column                 is left to outputs of fewer than 4 rows
// along W only           1 x 4    share columns
// other windows          1 x 1    share nothing, or (adaptive, dilated) not
//                                 alike
// inputs, backward       1 x 4    share the windows around them
// all of few channels,   whole    2/2 loads 4 times 16 bytes for 16, C = 3 3.4
//   forward or backward  vectors  at 3/1 and 7 at 3/2; where H overlaps 2 rows,
//                                 where W does, or backward, twice as many
//   more than 40         as above vectors of channels: too many registers; so
//   elements                      are rows that adapt, whose windows differ
// windows of a pass      to 32    all reach one column: two runs from there. 32
//                                 elements are kept at a time: at 31/1, 16
//                                 vectors of 4 load 3.3, 8 of 4 4.8, and 32 of
//                                 one element 7.8 times 16 bytes for 16
// inputs of a pass       to 32    share windows. Full vectors load least: at
//   elements                      31/1, 8 of 4 4.8, and 32 of one element 7.8
//                                 times 16 bytes for 16, of each array
//
// Passes take a slab after the other, of as many positions as keep what is
// between them within their share of memory and leave 2048 threads.
//
// Tiles are only as large as leaves 8192 threads. 2048 do for tiles of few
// channels and for strips, whose threads have several loads of 16 bytes under
// way at a time. Strips become shorter first, then narrower.
//
// Where a tile has at most 9 columns along W, of inputs under it or of windows
// around it, these are loaded together and their taps are constants: windows
// that do not adapt and have one of the input, inputs where the stride is 1, 2
// or 4 and no more than the kernel, which is at most 16 and not dilated
// (plan.cpp).
//
// clang-format on

namespace mlx_pooling::metal {

namespace {

constexpr int64_t kLaneLoads = 4;      // worth a lane
constexpr int64_t kLongLaneLoads = 32; // where the GPU is full without lanes
constexpr int64_t kSliceLoads = 8; // for each lane of a simdgroup, worth slices
constexpr double kSmallWindow = 14;  // loads, where passes take more launches
constexpr double kSmallWindow1d = 4; // and where they do not
constexpr double kWorthPasses = 0.5; // of the loads that one launch takes
constexpr double kWorthOnePass = 0.75;
constexpr int64_t kLeastTaps = 16; // that are shared
constexpr int64_t kNeighbours = 4; // vectors read by lanes side by side
constexpr int64_t kMostTaps = int64_t{1} << 30; // numbered in 32 bits by passes
constexpr int64_t kSlabUnit = 16;               // positions
constexpr int64_t kMostChannels = (int64_t{1} << 31) - 1;

constexpr Tile kCoverTile{1, 4};

bool fits(Tile tile, int64_t h, int64_t w, int64_t threads) {
  return h >= tile.h && w >= tile.w &&
      threads / (tile.h * tile.w) >= busy_threads();
}

bool are_alike(const Axis& axis) {
  return !axis.adaptive && axis.dilation == 1;
}

Tile ideal_window_tile(const Geometry& g, int width) {
  auto& [d, h, w] = g.axes;
  if (!shares_taps(w)) {
    return {1, 1};
  }
  return !shares_taps(h) ? Tile{1, 4} : width >= 8 ? Tile{2, 2} : Tile{4, 2};
}

// Between neighbouring windows.
double step(const Axis& axis) {
  return axis.adaptive ? static_cast<double>(axis.in) / axis.out : axis.stride;
}

// Loads for each of `length` neighbouring windows along an axis.
double window_loads(const Axis& axis, int length) {
  auto first = std::min(axis.kernel, axis.in);
  return (first + (length - 1) * step(axis)) / length;
}

// Loads for each of `length` neighbouring inputs along an axis.
double cover_loads(const Axis& axis, int length) {
  auto windows = (axis.span() + length - 1) / step(axis);
  return std::min<double>(axis.out, windows) / length;
}

// The longest strip of overlapping windows that all reach one column.
int longest_window_strip(const Axis& axis) {
  if (!are_alike(axis) || axis.kernel <= axis.stride) {
    return 1;
  }
  auto limit = std::min<int64_t>(axis.out, kLongestStrip);
  int length = 1;
  while (length < limit && (2 * length - 1) * axis.stride <= axis.kernel) {
    length *= 2;
  }
  return length;
}

// Loads for each of a strip's windows: all share their columns, but those
// before the seam are loaded again for each group that is kept.
double window_strip_loads(const Axis& axis, Strip strip) {
  auto kept = kKeptElements / strip.width;
  int64_t again = 0;
  for (int first = kept; first < strip.length; first += kept) {
    again += (strip.length - 1 - first) * axis.stride;
  }
  return window_loads(axis, strip.length) +
      static_cast<double>(again) / strip.length;
}

// The strip of windows, of vectors of that width, with the fewest loads.
Strip ideal_window_strip(const Axis& axis, int width) {
  Strip best{1, width};
  for (auto strip = best; strip.length <= longest_window_strip(axis);
       strip.length *= 2) {
    if (window_strip_loads(axis, strip) < window_strip_loads(axis, best)) {
      best = strip;
    }
  }
  return best;
}

// Of inputs, all of which are kept.
Strip ideal_cover_strip(const Axis& axis, int width) {
  auto limit = std::min({axis.in, axis.kernel, int64_t{kKeptElements / width}});
  Strip strip{1, width};
  while (strip.length < limit) {
    strip.length *= 2;
  }
  return strip;
}

// Loads and stores of all passes for each result of the last, which are over W
// first; `loads` are those of a pass for each of its results.
template <typename Loads>
double pass_traffic(const Geometry& g, bool forward, Loads loads) {
  double traffic = 0;
  double results = 1;
  for (auto& axis : g.axes) {
    if (!axis.passes_through()) {
      traffic += results * (loads(axis) + 1);
    }
    auto grown = static_cast<double>(axis.in) / axis.out;
    results *= forward ? grown : 1 / grown;
  }
  return traffic;
}

// Whether passes are worth their launches and temporaries.
bool are_better(const Geometry& g, double passes, double direct) {
  auto launches = std::count_if(g.axes.begin(), g.axes.end(), [](auto& axis) {
    return !axis.passes_through();
  });
  return launches == 1
      ? direct > kSmallWindow1d && passes <= kWorthOnePass * direct
      : direct > kSmallWindow && passes <= kWorthPasses * direct;
}

// Whether passes can number what they take for channels: those of all axes
// behind their own.
bool can_number(const Geometry& g) {
  auto channels = g.channels;
  bool fits = true;
  for (int i = kMaxSpatialAxes - 1; i >= 0; --i) {
    auto& axis = g.axes[i];
    fits = fits && (axis.passes_through() || channels <= kMostChannels);
    channels = saturating_product({channels, std::max(axis.in, axis.out)});
  }
  return fits;
}

// That strip or a smaller one, for `elements` arrays of `results`.
Strip fitted(Strip strip, int64_t results, int64_t elements) {
  auto threads = [&] {
    auto strips = (results + strip.length - 1) / strip.length;
    return strips * (elements / strip.width);
  };
  while (strip.length > 1 && threads() < few_threads()) {
    strip.length /= 2;
  }
  while (strip.width > 1 && threads() < few_threads()) {
    strip.width /= 2;
  }
  return strip;
}

} // namespace

bool shares_taps(const Axis& axis) {
  // A tile's rows and columns are unrolled.
  bool is_small = axis.kernel <= 8;
  return are_alike(axis) && axis.kernel > axis.stride && is_small;
}

int lanes_for(int64_t taps) {
  auto most = std::max<int64_t>(taps / kLaneLoads, 1);
  return std::min<int>(kLanes, std::bit_floor(static_cast<uint64_t>(most)));
}

Way forward_way(const Geometry& g, int width) {
  auto& [d, h, w] = g.axes;
  if (g.taps() >= kMostTaps || !can_number(g)) {
    return Way::direct;
  }
  auto tile = ideal_window_tile(g, width);
  auto direct =
      window_loads(d, 1) * window_loads(h, tile.h) * window_loads(w, tile.w);
  auto passes = pass_traffic(g, true, [&](auto& axis) {
    return window_strip_loads(axis, ideal_window_strip(axis, width));
  });
  return are_better(g, passes, direct) ? Way::axes : Way::direct;
}

Way backward_way(const Geometry& g, int width) {
  auto& [d, h, w] = g.axes;
  auto direct =
      cover_loads(d, 1) * cover_loads(h, 1) * cover_loads(w, kCoverTile.w);
  auto passes = pass_traffic(g, false, [&](auto& axis) {
    return cover_loads(axis, ideal_cover_strip(axis, width).length);
  });
  bool can_pass = g.taps() < kMostTaps && can_number(g);
  return can_pass && are_better(g, passes, direct) ? Way::axes : Way::direct;
}

std::optional<Split> window_split(const Geometry& g, int width, Way way) {
  auto vectors = g.channels / width;
  auto threads = g.outputs() * vectors;
  int64_t taps = 1;
  for (auto& axis : g.axes) {
    taps *= std::min(axis.kernel, axis.in);
  }
  if (threads == 0 || threads >= many_threads() || taps < kLeastTaps) {
    return std::nullopt;
  }
  // Powers of two, with so many loads each, up to so many threads.
  auto shares_of = [&](int64_t loads, int64_t most) {
    auto useful = std::bit_floor(
        static_cast<uint64_t>(std::max<int64_t>(taps / loads, 1)));
    auto wanted = std::bit_ceil(
        static_cast<uint64_t>(std::max<int64_t>(ceil_div(most, threads), 1)));
    return static_cast<int64_t>(std::min(wanted, useful));
  };
  auto shares = std::max(
      shares_of(kLaneLoads, few_threads()),
      shares_of(kLongLaneLoads, many_threads()));
  // Elsewhere simdgroups are to be full, and nothing else to load less.
  bool is_idle = threads < few_threads();
  bool is_worth_it =
      shares > 1 && vectors * shares >= kLanes && way == Way::direct;
  if (!is_idle && !is_worth_it) {
    return std::nullopt;
  }
  // As many read 64 bytes of neighbouring channels, where there are.
  auto neighbours = std::bit_floor(
      static_cast<uint64_t>(std::min<int64_t>(vectors, kNeighbours)));
  auto lanes = kLanes / static_cast<int64_t>(neighbours);
  if (shares > lanes && taps >= kLanes * kSliceLoads) {
    return Split{static_cast<int>(lanes), shares / lanes};
  }
  return Split{static_cast<int>(std::min<int64_t>(shares, kLanes)), 1};
}

Tile window_tile(const Geometry& g, int width) {
  auto threads = g.outputs() * g.channels / width;
  auto h = g.axes[1].out;
  auto w = g.axes[2].out;
  std::vector<Tile> tiles{ideal_window_tile(g, width)};
  if (tiles.front().h > 1) {
    tiles.insert(tiles.end(), {{4, 1}, {1, 4}});
  }
  for (auto tile : tiles) {
    if (fits(tile, h, w, threads)) {
      return tile;
    }
  }
  return {1, 1};
}

Tile cover_tile(const Geometry& g, int width) {
  auto threads = g.inputs() * g.channels / width;
  bool is_fit = fits(kCoverTile, g.axes[1].in, g.axes[2].in, threads);
  return is_fit ? kCoverTile : Tile{1, 1};
}

Strip window_strip(
    const Axis& axis, int64_t results, int64_t elements, int width) {
  return fitted(ideal_window_strip(axis, width), results, elements);
}

Strip cover_strip(
    const Axis& axis, int64_t results, int64_t elements, int width) {
  return fitted(ideal_cover_strip(axis, width), results, elements);
}

int64_t
slab_length(int64_t results, int64_t bytes, int64_t most, int64_t elements) {
  if (bytes <= most) {
    return results;
  }
  // With vectors of four.
  auto busy = (4 * few_threads() * results + elements - 1) / elements;
  auto length = std::max({most * results / bytes, busy, int64_t{1}});
  // Of whole strips, and of whole vectors where channels do not fill them.
  if (length > kSlabUnit) {
    length -= length % kSlabUnit;
  }
  return std::min(length, results);
}

} // namespace mlx_pooling::metal
