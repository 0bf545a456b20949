#include <algorithm>
#include <array>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each window hands its cotangent to the input that won it. A unit owns some
// inputs and visits all windows that reach them, in order, so that what each
// input adds up does not depend on units either.
template <typename T, typename Offset>
class HandOut {
 public:
  explicit HandOut(const MaxTask& task) : task_(task) {}

  void run(const Tiling::Unit& unit) {
    Scratch scratch;
    auto& axes = task_.links.axes;
    auto axis = task_.tiling->axis();
    channels_ = unit.channels;
    auto inner = positions_behind(axis, task_.links);
    auto outer = unit.sample * axes[axis].size();
    begin_ = unit.band.begin * inner;
    size_ = unit.band.size() * inner;
    auto count = channels_.size();
    constexpr int64_t kElements = kAheadBytes / sizeof(float);
    soon_ = (kElements / count + 1) * task_.channels;
    // What is handed to inputs of other units is dropped at the end.
    totals_ = scratch.take<A>((size_ + 1) * count);
    std::fill_n(totals_, size_ * count, A{0});
    auto& taps = task_.winners->taps;
    reaches_ = scratch.take<int64_t>(taps.size());
    std::transform(taps.begin(), taps.end(), reaches_, [&](int64_t tap) {
      return tap == Winners::kNowhere ? tap : tap * count;
    });
    hand_out(unit, axis, linked(axes[axis], unit.band));
    store_totals(outer * inner + begin_);
  }

 private:
  using A = Arithmetic<T>;

  void hand_out(const Tiling::Unit& unit, int axis, Range outputs) {
    auto& [depth, height, width] = task_.links.axes;
    auto of = [&](int i) {
      return i == axis ? outputs : Range{0, task_.links.axes[i].other_size};
    };
    auto within = [&](int i) {
      auto inputs =
          i == axis ? unit.band : Range{0, task_.links.axes[i].size()};
      return task_.winners->within(i, inputs);
    };
    const std::array all_within{within(0), within(1), within(2)};
    auto& starts = task_.winners->starts;
    for (auto d = of(0).begin; d < of(0).end; ++d) {
      for (auto h = of(1).begin; h < of(1).end; ++h) {
        bool row_is_within =
            all_within[0].contains(d) && all_within[1].contains(h);
        auto o = (unit.sample * depth.other_size + d) * height.other_size + h;
        auto row = (starts[0][d] * height.size() + starts[1][h]) * width.size();
        for (auto w = of(2).begin; w < of(2).end; ++w) {
          auto at =
              (o * width.other_size + w) * task_.channels + channels_.begin;
          auto start = row + starts[2][w] - begin_;
          if (row_is_within && all_within[2].contains(w)) {
            hand_out_within(at, start);
          } else {
            hand_out_one(at, start);
          }
        }
      }
    }
  }

  // Of a window whose winners are all inputs of this unit.
  void hand_out_within(int64_t at, int64_t start) {
    auto* dy = static_cast<const T*>(task_.from) + at;
    auto* offsets = static_cast<const Offset*>(task_.offsets) + at;
    const auto* reaches = reaches_;
    auto count = channels_.size();
    auto* totals = totals_ + start * count;
    fetch_soon(dy);
    fetch_soon(offsets);
    for (int64_t c = 0; c < count; ++c) {
      add(totals + reaches[offsets[c]] + c, dy + c);
    }
  }

  // The same channels of windows that follow soon.
  template <typename V>
  MLX_POOLING_INLINE void fetch_soon(const V* values) const {
    for (int64_t c = 0; c < channels_.size(); c += 64 / sizeof(V)) {
      fetch_ahead<64>(values + c, soon_ * sizeof(V));
    }
  }

  void hand_out_one(int64_t at, int64_t start) {
    auto* dy = static_cast<const T*>(task_.from) + at;
    auto* offsets = static_cast<const Offset*>(task_.offsets) + at;
    auto none = static_cast<uint64_t>(task_.winners->taps.size() - 1);
    auto count = channels_.size();
    auto outside = static_cast<uint64_t>(size_ * count);
    const auto* reaches = reaches_;
    auto* totals = totals_;
    for (int64_t c = 0; c < count; ++c) {
      auto tap = std::min<uint64_t>(offsets[c], none);
      auto reach = static_cast<uint64_t>(start * count + reaches[tap]);
      add(totals + std::min(reach, outside) + c, dy + c);
    }
  }

  MLX_POOLING_INLINE static void add(A* total, const T* cotangent) {
    store<1>(total, sum<T>(load<1>(total), load<1>(cotangent)));
  }

  void store_totals(int64_t position) const {
    auto count = channels_.size();
    auto* dx = static_cast<T*>(task_.to) + channels_.begin;
    bool is_whole = count == task_.channels;
    auto runs = is_whole ? 1 : size_;
    auto length = size_ * count / runs;
    for (int64_t i = 0; i < runs; ++i) {
      auto* to = dx + (position + i) * task_.channels;
      auto* from = totals_ + i * length;
      for_each_lane<kVectorBytes / sizeof(A)>(
          length, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
            store<L>(to + c, load<L>(from + c));
          });
    }
  }

  const MaxTask& task_;
  Range channels_;
  int64_t begin_; // inputs of this unit, as positions in their sample
  int64_t size_;
  A* totals_;
  int64_t soon_;     // elements
  int64_t* reaches_; // from a window's start to its taps, in elements
};

} // namespace

void max_pool_winners(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      HandOut<T, Offset> hand_out(task);
      for (auto u = begin; u < end; ++u) {
        hand_out.run(task.tiling->unit(u));
      }
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
