#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <typename T, int L>
MLX_POOLING_INLINE auto order_flip(const MaxTask& task) {
  auto bits = order_bits<T>();
  return broadcast<decltype(bits), L>(task.minimum ? bits : 0);
}

template <typename T, int L>
void values(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  const auto flip = order_flip<T, L>(task);
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    for_each_block<L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> best[U];
          for (auto& b : best) {
            b = broadcast<A, L>(lowest<A>());
          }
          walk.for_each([&](Linked tap) MLX_POOLING_LAMBDA {
            auto* from = x + tap.spatial * channels + c;
            for (int u = 0; u < U; ++u) {
              fetch_ahead<L>(from + u * L);
              auto v = flipped(load<L>(from + u * L), flip);
              best[u] = chosen<L>(replaces(v, best[u]), v, best[u]);
            }
          });
          for (int u = 0; u < U; ++u) {
            store<L>(y + c + u * L, flipped(best[u], flip));
          }
        });
  }
}

template <typename T, typename Offset, int L>
void values_and_offsets(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  using Lane = OffsetLane<A, Offset>;
  const auto flip = order_flip<T, L>(task);
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto i = begin; i < end; ++i, walk.next()) {
    auto* x = static_cast<const T*>(task.from) + walk.plane() * channels;
    auto* y = static_cast<T*>(task.to) + i * channels;
    auto* offsets = static_cast<Offset*>(task.offsets) + i * channels;
    // An all -inf window keeps its first valid tap; one without valid taps
    // has the top value.
    auto initial = walk.unlinked() ? Lane(~Offset{0}) : Lane(walk.first_tap());
    for_each_block<L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> best[U];
          Vec<Lane, L> best_tap[U];
          for (int u = 0; u < U; ++u) {
            best[u] = broadcast<A, L>(lowest<A>());
            best_tap[u] = broadcast<Lane, L>(initial);
          }
          walk.for_each([&](Linked tap) MLX_POOLING_LAMBDA {
            auto* from = x + tap.spatial * channels + c;
            auto tap_here = broadcast<Lane, L>(Lane(tap.tap));
            for (int u = 0; u < U; ++u) {
              fetch_ahead<L>(from + u * L);
              auto v = flipped(load<L>(from + u * L), flip);
              auto better = replaces(v, best[u]);
              best[u] = chosen<L>(better, v, best[u]);
              best_tap[u] = chosen<L>(
                  resize_mask<Lane, L>(better), tap_here, best_tap[u]);
            }
          });
          for (int u = 0; u < U; ++u) {
            store<L>(y + c + u * L, flipped(best[u], flip));
            store<L>(offsets + c + u * L, resize<Offset, L>(best_tap[u]));
          }
        });
  }
}

} // namespace

void max_pool(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    if (task.offsets == nullptr) {
      with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
        values<T, L>(task, begin, end);
      });
      return;
    }
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      using Lane = OffsetLane<Arithmetic<T>, Offset>;
      with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
        values_and_offsets<T, Offset, L>(task, begin, end);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
