#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <int L, typename T>
void values(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    for_each_block<L>(channels, [&](int64_t c) MLX_POOLING_LAMBDA {
      auto best = broadcast<A, L>(lowest<A>());
      walk.for_each([&](Linked tap) MLX_POOLING_LAMBDA {
        auto v = load<L>(x + tap.spatial * channels + c);
        best = replaces(v, best) ? v : best;
      });
      store<L>(y + c, best);
    });
  }
}

template <int L, typename T, typename Offset>
void values_and_offsets(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  using Lane = OffsetLane<A, Offset>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    auto* offsets = static_cast<Offset*>(task.offsets) + i * channels;
    // An all -inf window keeps its first valid tap; one without valid taps
    // has the top value.
    auto initial = walk.unlinked() ? Lane(~Offset{0}) : Lane(walk.first_tap());
    for_each_block<L>(channels, [&](int64_t c) MLX_POOLING_LAMBDA {
      auto best = broadcast<A, L>(lowest<A>());
      auto best_tap = broadcast<Lane, L>(initial);
      walk.for_each([&](Linked tap) MLX_POOLING_LAMBDA {
        auto v = load<L>(x + tap.spatial * channels + c);
        auto better = replaces(v, best);
        best = better ? v : best;
        best_tap = resize_mask<Lane, L>(better)
            ? broadcast<Lane, L>(Lane(tap.tap))
            : best_tap;
      });
      store<L>(y + c, best);
      store<L>(offsets + c, resize<Offset, L>(best_tap));
    });
  }
}

} // namespace

void max_pool(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
        values<L, T>(task, begin, end);
      });
      return;
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        values_and_offsets<L, T, Offset>(task, begin, end);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
