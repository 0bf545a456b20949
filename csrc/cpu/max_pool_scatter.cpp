#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each input adds up the cotangents of the windows it won.
template <int L, typename T, typename Offset>
void collect(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto plane = walk.plane() * channels;
    auto* dy = static_cast<const T*>(task.from) + plane;
    auto* offsets = static_cast<const Offset*>(task.offsets) + plane;
    auto* dx = static_cast<T*>(task.to) + i * channels;
    for_each_block<L>(channels, [&](int64_t c) MLX_POOLING_LAMBDA {
      Vec<A, L> total{};
      walk.for_each([&](Linked window) MLX_POOLING_LAMBDA {
        auto o = window.spatial * channels + c;
        auto won =
            load<L>(offsets + o) == broadcast<Offset, L>(Offset(window.tap));
        Vec<A, L> share =
            resize_mask<A, L>(won) ? load<L>(dy + o) : Vec<A, L>{};
        total = sum<T>(total, share);
      });
      store<L>(dx + c, total);
    });
  }
}

} // namespace

void max_pool_scatter(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        collect<L, T, Offset>(task, begin, end);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
