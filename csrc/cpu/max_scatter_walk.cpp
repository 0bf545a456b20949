#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each input adds up the cotangents of the windows it won.
template <typename T, typename Offset, int L>
void collect(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  using Lane = OffsetLane<A, Offset>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto plane = walk.plane() * channels;
    auto* dy = static_cast<const T*>(task.from) + plane;
    auto* offsets = static_cast<const Offset*>(task.offsets) + plane;
    auto* dx = static_cast<T*>(task.to) + i * channels;
    auto newest = walk.newest() * channels;
    for_each_block<Lane, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> total[U] = {};
          walk.for_each([&](Linked window) MLX_POOLING_LAMBDA {
            auto o = window.spatial * channels + c;
            auto tap = broadcast<Offset, L>(Offset(window.tap));
            for (int u = 0; u < U; ++u) {
              total[u] = sum_where_equal<T, L>(
                  total[u], load<L>(dy + o + u * L),
                  load<L>(offsets + o + u * L), tap);
            }
          });
          fetch_lines_ahead<U * L * sizeof(T)>(dy + newest + c);
          fetch_all_ahead<U * L * sizeof(Offset)>(
              offsets + newest + c, kAheadBytes);
          for (int u = 0; u < U; ++u) {
            store_result(
                dx + c + u * L, stored<T, L>(total[u]), kAheadBytes,
                task.around_caches);
          }
        });
  }
}

} // namespace

void max_scatter_walk(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        collect<T, Offset, L>(task, begin, end);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
