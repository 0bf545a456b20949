#include "cpu/gather.h"

#include <limits>

#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

namespace mx = mlx::core;

namespace {

// Flat spatial positions of taps.
class TapPositions {
 public:
  explicit TapPositions(const Geometry& geometry) : axes_(geometry.axes) {}

  // Of tap 0 of output i; may lie before the input.
  int64_t start(int64_t i) const {
    auto& [d, h, w] = axes_;
    auto row = i / w.out;
    auto plane = row / h.out;
    return flat(
        d.start(plane % d.out), h.start(row % h.out), w.start(i % w.out));
  }

  int64_t from_start(uint32_t tap) const {
    auto& [d, h, w] = axes_;
    auto width = static_cast<uint32_t>(w.kernel);
    auto height = static_cast<uint32_t>(h.kernel);
    auto row = tap / width;
    return flat(
        row / height * d.dilation, row % height * h.dilation,
        tap % width * w.dilation);
  }

 private:
  int64_t flat(int64_t d, int64_t h, int64_t w) const {
    return (d * axes_[1].in + h) * axes_[2].in + w;
  }

  std::array<Axis, kMaxSpatialAxes> axes_;
};

// Calls visit(element, position, n, c) with the winning position of each
// output element, -1 for a window without valid taps.
template <typename Offset, typename Visit>
void for_each_winner(
    const Geometry& geometry,
    const Offset* offsets,
    int64_t bytes,
    Visit visit) {
  TapPositions positions(geometry);
  auto channels = geometry.channels;
  auto plane = geometry.outputs() / geometry.batch;
  parallel_for(geometry.outputs(), bytes, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      auto start = positions.start(i);
      for (int64_t c = 0; c < channels; ++c) {
        auto tap = offsets[i * channels + c];
        bool valid = tap != std::numeric_limits<Offset>::max();
        visit(
            i * channels + c, valid ? start + positions.from_start(tap) : -1,
            i / plane, c);
      }
    }
  });
}

// Elements are only moved, so one type a size will do.
template <typename Visit>
void with_word(size_t bytes, Visit visit) {
  switch (bytes) {
    case 1:
      return visit(uint8_t{});
    case 2:
      return visit(uint16_t{});
    case 4:
      return visit(uint32_t{});
    default:
      return visit(uint64_t{});
  }
}

} // namespace

void max_pool_gather(
    const Geometry& geometry,
    const mx::array& offsets,
    const mx::array* t,
    mx::array& y) {
  auto channels = geometry.channels;
  auto plane = geometry.inputs() / geometry.batch;
  auto bytes = static_cast<int64_t>(offsets.nbytes() + 2 * y.nbytes());
  with_word(offsets.itemsize(), [&]<typename Offset>(Offset) {
    const Offset* taps = offsets.data<Offset>();
    if (t == nullptr) {
      auto* indices = y.data<uint32_t>();
      for_each_winner(
          geometry, taps, bytes, [=](auto e, auto position, auto, auto) {
            indices[e] = static_cast<uint32_t>(position);
          });
      return;
    }
    with_word(t->itemsize(), [&]<typename Word>(Word) {
      const Word* from = t->data<Word>();
      Word* to = y.data<Word>();
      for_each_winner(
          geometry, taps, bytes, [=](auto e, auto position, auto n, auto c) {
            to[e] = position < 0 ? Word{0}
                                 : from[(n * plane + position) * channels + c];
          });
    });
  });
}

} // namespace mlx_pooling::cpu
