#include "cpu/unpool.h"

#include <algorithm>
#include <limits>

#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

namespace {

constexpr auto kNone = std::numeric_limits<uint32_t>::max();

// Channels [first, last) of one plane.
struct Columns {
  int64_t plane;
  int64_t elements;
  int64_t channels;
  int64_t first;
  int64_t last;

  void
  pair_up(const uint32_t* indices, uint32_t* sources, uint32_t* targets) const {
    for (int64_t i = 0; i < plane; ++i) {
      auto* row = sources + i * channels;
      std::fill(row + first, row + last, kNone);
    }
    for (int64_t i = 0; i < elements; ++i) {
      for (auto c = first; c < last; ++c) {
        auto index = indices[i * channels + c];
        auto* source = sources + index * channels + c;
        bool pairs = index < plane && *source == kNone;
        if (pairs) {
          *source = static_cast<uint32_t>(i);
        }
        targets[i * channels + c] = pairs ? index : kNone;
      }
    }
  }
};

} // namespace

void unpool_routes(
    const Geometry& geometry,
    const uint32_t* indices,
    uint32_t* sources,
    uint32_t* targets) {
  auto channels = geometry.channels;
  auto plane = geometry.inputs() / geometry.batch;
  auto elements = geometry.outputs() / geometry.batch;
  auto columns = geometry.batch * channels;
  auto bytes = (plane + 2 * elements) * columns * int64_t{sizeof(uint32_t)};
  parallel_for(columns, bytes, [=](int64_t begin, int64_t end) {
    while (begin < end) {
      auto n = begin / channels;
      auto first = begin % channels;
      auto last = std::min(channels, first + end - begin);
      Columns{plane, elements, channels, first, last}.pair_up(
          indices + n * elements * channels, sources + n * plane * channels,
          targets + n * elements * channels);
      begin += last - first;
    }
  });
}

} // namespace mlx_pooling::cpu
