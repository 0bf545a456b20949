#include <algorithm>
#include <cstring>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Inputs side by side in the same windows get the same gradient, which is
// computed once for all of them.
template <typename T>
class Fill {
 public:
  explicit Fill(const AvgTask& task)
      : task_(task),
        bytes_(task.channels * sizeof(T)),
        most_(std::max<int64_t>(1, kPatternBytes / bytes_)),
        pattern_(scratch_.take<T>(most_ * task.channels)) {}

  // Inputs [begin, end).
  void run(int64_t begin, int64_t end) const {
    auto& width = task_.links.axes[2];
    Walk walk(task_.links, begin);
    for (auto i = begin; i < end;) {
      auto count = std::min(in_same_windows(width, walk.w()), end - i);
      auto* to = static_cast<uint8_t*>(task_.to) + i * bytes_;
      if (walk.unlinked()) {
        std::memset(to, 0, count * bytes_);
      } else {
        fill(walk, to, count);
      }
      walk.skip(count);
      i += count;
    }
  }

 private:
  // What is copied at a time, of few channels.
  static constexpr int64_t kPatternBytes = 512;

  // How many positions are, from w on; or in none, before the next.
  static int64_t in_same_windows(const AxisLinks& covers, int64_t w) {
    if (covers.of.has_runs()) {
      return covers.of.end_of_run(w) - w;
    }
    const Link link = covers.of[w];
    auto [first, stride] = *covers.spacing;
    auto end = first + link.first * stride + covers.kernel;
    if (link.count == 0) {
      auto next = (w - first) / stride + 1;
      end = next < covers.other_size ? first + next * stride : covers.size();
    }
    return std::min(end, covers.size()) - w;
  }

  void fill(const Walk& walk, uint8_t* to, int64_t count) const {
    compute(walk);
    // One by one, as kernels are compiled: sooner than a pattern is repeated.
    if (task_.channels == 1 && count * bytes_ <= kVectorBytes) {
      std::fill_n(reinterpret_cast<T*>(to), count, *pattern_);
      return;
    }
    auto copies = std::min(count, most_);
    repeat(copies);
    for (; count > 0; count -= copies) {
      copies = std::min(count, copies);
      copy(to, copies * bytes_);
      to += copies * bytes_;
    }
  }

  void compute(const Walk& walk) const {
    using A = Arithmetic<T>;
    auto* dy =
        static_cast<const T*>(task_.from) + walk.plane() * task_.channels;
    for_each_lane<kFullLanes<A>>(
        task_.channels, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
          Vec<A, L> total{};
          walk.for_each([&](Linked window) MLX_POOLING_LAMBDA {
            total += load<L>(dy + window.spatial * task_.channels + c) /
                divisor_at<A>(task_.divisors, window.d, window.h, window.w);
          });
          store<L>(pattern_ + c, total);
        });
  }

  void repeat(int64_t copies) const {
    auto* pattern = reinterpret_cast<uint8_t*>(pattern_);
    for (int64_t done = 1; done < copies;) {
      auto more = std::min(done, copies - done);
      std::memcpy(pattern + done * bytes_, pattern, more * bytes_);
      done += more;
    }
  }

  void copy(uint8_t* to, int64_t bytes) const {
    auto* pattern = reinterpret_cast<const uint8_t*>(pattern_);
    for_each_lane<kVectorBytes>(
        bytes, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          auto shares = load<L>(pattern + j);
          if (!task_.around_caches || !stored_around_caches(to + j, shares)) {
            store<L>(to + j, shares);
          }
        });
  }

  const AvgTask& task_;
  int64_t bytes_; // of a position
  int64_t most_;  // positions whose shares are copied at a time
  Scratch scratch_;
  T* pattern_;
};

} // namespace

void avg_grad_fill(const AvgTask& task, int64_t begin, int64_t end) {
  with_float_type(
      task.dtype, [&]<typename T>(T) { Fill<T>(task).run(begin, end); });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
