#include "cpu/spread.h"
#include "cpu/compare.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

template <typename T, int L>
void spread_to_winners(const MaxTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  using Lane = OffsetLane<A, SpreadOffset>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto o = begin; o < end; ++o, walk.next()) {
    auto* dy = static_cast<const T*>(task.from) + o * channels;
    auto* offsets =
        static_cast<const SpreadOffset*>(task.offsets) + o * channels;
    auto* dx = static_cast<T*>(task.to) + walk.plane() * channels;
    const auto taps = walk.taps();
    for_each_block<Lane, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> share[U];
          Vec<SpreadOffset, L> winner[U];
          for (int u = 0; u < U; ++u) {
            share[u] = sum_of_one<T>(load<L>(dy + c + u * L));
            winner[u] = load<L>(offsets + c + u * L);
          }
          taps.for_each(
              channels, [&](int64_t at, int64_t tap) MLX_POOLING_LAMBDA {
                auto tap_here = broadcast<SpreadOffset, L>(SpreadOffset(tap));
                for (int u = 0; u < U; ++u) {
                  auto won = kept<A, L>(share[u], winner[u] == tap_here);
                  store_result(
                      dx + at + c + u * L, stored_exactly<T, L>(won),
                      kAheadBytes, task.around_caches);
                }
              });
        });
  }
}

template <typename T, int L>
void spread_to_all(const AvgTask& task, int64_t begin, int64_t end) {
  using A = Arithmetic<T>;
  auto channels = task.channels;
  Walk walk(task.links, begin);
  for (auto o = begin; o < end; ++o, walk.next()) {
    auto* dy = static_cast<const T*>(task.from) + o * channels;
    auto* dx = static_cast<T*>(task.to) + walk.plane() * channels;
    const auto taps = walk.taps();
    A divisor = divisor_at<A>(task.divisor, walk.d(), walk.h(), walk.w());
    for_each_block<A, L>(
        channels, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> share[U];
          for (int u = 0; u < U; ++u) {
            share[u] = sum_of_one<T>(load<L>(dy + c + u * L) / divisor);
          }
          taps.for_each(channels, [&](int64_t at, int64_t) MLX_POOLING_LAMBDA {
            for (int u = 0; u < U; ++u) {
              store_result(
                  dx + at + c + u * L, stored<T, L>(share[u]), kAheadBytes,
                  task.around_caches);
            }
          });
        });
  }
}

} // namespace

void max_pool_spread(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    using Lane = OffsetLane<Arithmetic<T>, SpreadOffset>;
    with_lanes<Lane>(task.channels, [&]<int L>(Lanes<L>) {
      spread_to_winners<T, L>(task, begin, end);
    });
  });
}

void avg_pool_spread(const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(task.dtype, [&]<typename T>(T) {
    with_lanes<Arithmetic<T>>(task.channels, [&]<int L>(Lanes<L>) {
      spread_to_all<T, L>(task, begin, end);
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
