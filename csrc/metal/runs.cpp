#include "metal/runs.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "metal/launches.h"
#include "metal/occupancy.h"

namespace mlx_pooling::metal {

namespace {

// Elements of a thread, kept in registers.
constexpr int64_t kMostStored = 40;
constexpr int64_t kMostGrown = 32; // where fewer would do
constexpr int64_t kMostRead = 80;

// A vector may begin at any of its quarters.
constexpr int kQuarters = 4;

// The inputs along W that `count` neighbouring windows reach over.
int64_t columns_under(const Axis& w, int64_t count) {
  return (count - 1) * w.stride + w.span();
}

// The most windows that `count` neighbouring inputs are in, the first of which
// is a multiple of that.
int64_t windows_around(const Axis& w, int64_t count) {
  if (count % w.stride != 0) {
    return (w.span() + count - 2) / w.stride + 1;
  }
  return (first_cover_tap(w) + count - 1) / w.stride + 1;
}

// The fewest neighbours whose elements are whole vectors.
int whole_vectors(int64_t channels, int width) {
  return width / static_cast<int>(std::gcd(channels, width));
}

// What a launch over outputs and one over inputs differ in.
struct Kind {
  std::vector<Tile> tiles; // in multiples of the fewest, the best last
  int64_t Axis::* size;
  int64_t (*reach)(const Axis& w, int64_t count);
  std::vector<int64_t> steps; // between what vectors begin at
  double loads;               // that vectors of channels take, for an element
};

int64_t threads(const Geometry& g, const Kind& kind, Tile tile) {
  auto& [d, h, w] = g.axes;
  return g.batch * d.*kind.size * ceil_div(h.*kind.size, tile.h) *
      ceil_div(w.*kind.size, tile.w);
}

// The best tile of whole vectors that leaves enough threads.
std::optional<Tile> run_tile(const Geometry& g, const Kind& kind, int width) {
  auto unit = whole_vectors(g.channels, width);
  std::optional<Tile> best;
  for (auto tile : kind.tiles) {
    tile.w *= unit;
    auto stored = tile.h * tile.w * g.channels;
    auto count = threads(g, kind, tile);
    auto most = best ? kMostGrown : kMostStored;
    bool is_fit = (!best && stored == width) ||
        (stored <= most && count >= few_threads());
    if (!is_fit) {
      break;
    }
    best = tile;
  }
  return best;
}

// Whether vectors begin only where they may.
bool are_legal(
    int width,
    const std::vector<int64_t>& steps,
    const std::vector<Operand>& operands) {
  auto quarter = width / kQuarters;
  return std::all_of(
             steps.begin(), steps.end(),
             [&](auto step) { return step % quarter == 0; }) &&
      std::all_of(operands.begin(), operands.end(), [&](auto& operand) {
           auto bytes = quarter * element_bytes(operand.dtype);
           return operand.byte_offset % bytes == 0;
         });
}

std::optional<Run> widest_run(
    const Geometry& g, const Kind& kind, const std::vector<Operand>& operands) {
  auto& w = g.axes[2];
  auto narrow = vector_width(g.channels, operands);
  auto least = std::max(2 * narrow, kQuarters);
  for (int width = full_width(operands); width >= least; width /= 2) {
    auto tile = w.adaptive ? std::nullopt : run_tile(g, kind, width);
    if (!tile) {
      continue;
    }
    auto reach = std::min(kind.reach(w, tile->w), kMostRead + 1);
    auto elements = reach * g.channels;
    auto steps = kind.steps;
    steps.push_back(elements);
    if (elements > kMostRead || !are_legal(width, steps, operands)) {
      continue;
    }
    auto read = std::bit_floor(static_cast<uint64_t>(elements));
    auto vector = std::min(width, static_cast<int>(read));
    auto stored = tile->w * g.channels;
    auto accesses = static_cast<double>(
        ceil_div(elements, vector) + ceil_div(stored, width));
    if (accesses / stored < (kind.loads + 1) / narrow) {
      return Run{width, *tile, static_cast<int>(reach), vector};
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<Run>
window_run(const Geometry& g, const std::vector<Operand>& operands) {
  auto& [d, h, w] = g.axes;
  Kind kind{{{1, 1}}, &Axis::out, columns_under, {}, 1.0 * w.kernel};
  if (shares_taps(h) && h.out > 1) {
    kind.tiles.push_back({2, 1});
  }
  if (shares_taps(w)) {
    kind.tiles.push_back({kind.tiles.back().h, 2});
  }
  for (auto step : {w.in, w.out, w.pad_lo}) {
    kind.steps.push_back(step * g.channels);
  }
  return widest_run(g, kind, operands);
}

std::optional<Run>
cover_run(const Geometry& g, const std::vector<Operand>& operands) {
  auto& w = g.axes[2];
  return widest_run(
      g,
      {{{1, 1}, {1, 2}},
       &Axis::in,
       windows_around,
       {g.channels},
       windows_around(w, kLongestTile) / double{kLongestTile}},
      operands);
}

} // namespace mlx_pooling::metal
