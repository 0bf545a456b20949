#include "cpu/clear.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cpu/line.h"
#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

namespace {

// Gaps of fewer bytes are cleared with all that lies between them.
constexpr int64_t kShortGap = 256;

// Whole lines, where there is an instruction for it.
void clear_around_caches(char* begin, char* end) {
#if defined(__SSE2__)
  for (; end - begin >= kLineBytes; begin += kLineBytes) {
    for (int64_t i = 0; i < kLineBytes; i += sizeof(__m128i)) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(begin + i), _mm_setzero_si128());
    }
  }
  _mm_sfence(); // such stores come in no order otherwise
#endif
  std::memset(begin, 0, end - begin);
}

// Positions of an axis that have no links, of which most repeat.
class Unlinked {
 public:
  explicit Unlinked(const AxisLinks& axis)
      : axis_(axis), even_(axis.of.repeating()), period_(axis.of.period()) {
    auto first = std::min(even_.begin + period_, even_.end);
    look_up({even_.begin, first}, [&](Range range) {
      of_period_.push_back(range);
    });
  }

  // Calls visit(range) for all of them.
  template <typename Visit>
  void for_each(Visit visit) const {
    look_up({0, even_.begin}, visit);
    auto periods = of_period_.empty() ? 0 : ceil_div(even_.size(), period_);
    for (int64_t n = 0; n < periods; ++n) {
      for (auto [begin, end] : of_period_) {
        auto moved = begin + n * period_;
        if (moved < even_.end) {
          visit(Range{moved, std::min(end + n * period_, even_.end)});
        }
      }
    }
    look_up({even_.end, axis_.size()}, visit);
  }

  int64_t count() const {
    int64_t count = 0;
    auto add = [&](Range range) { count += range.size(); };
    look_up({0, even_.begin}, add);
    auto whole = even_.size() / period_;
    for (auto [begin, end] : of_period_) {
      count += whole * (end - begin);
      auto moved = std::min(begin + whole * period_, even_.end);
      add({moved, std::clamp(end + whole * period_, moved, even_.end)});
    }
    look_up({even_.end, axis_.size()}, add);
    return count;
  }

  // Of those that repeat, if any do; else 0.
  int64_t longest() const {
    int64_t longest = 0;
    for (auto range : of_period_) {
      longest = std::max(longest, range.size());
    }
    return longest;
  }

 private:
  template <typename Visit>
  void look_up(Range among, Visit visit) const {
    if (!axis_.some_empty) {
      return;
    }
    for (auto i = among.begin; i < among.end;) {
      auto next = std::min(axis_.of.end_of_run(i), among.end);
      if (axis_.of[i].count == 0) {
        visit(Range{i, next});
      }
      i = next;
    }
  }

  const AxisLinks& axis_;
  Range even_;
  int64_t period_;
  std::vector<Range> of_period_;
};

} // namespace

void clear(void* to, int64_t bytes, bool around_caches) {
  parallel_for(
      ceil_div(bytes, kLineBytes), bytes, [=](int64_t begin, int64_t end) {
        auto* first = static_cast<char*>(to) + begin * kLineBytes;
        auto* last = static_cast<char*>(to) + std::min(end * kLineBytes, bytes);
        if (around_caches) {
          clear_around_caches(first, last);
        } else {
          std::memset(first, 0, last - first);
        }
      });
}

void clear_unlinked(
    const Links& links, int64_t batch, int64_t position_bytes, void* to) {
  auto& [depth, height, width] = links.axes;
  const Unlinked columns(width);
  auto linked = (depth.size() - Unlinked(depth).count()) *
      (height.size() - Unlinked(height).count()) *
      (width.size() - columns.count());
  auto rows = depth.size() * height.size();
  auto cleared = rows * width.size() - linked;
  if (cleared == 0) {
    return;
  }
  auto gap = columns.longest() * position_bytes;
  if (gap > 0 && gap < kShortGap) {
    return clear(to, batch * rows * width.size() * position_bytes, false);
  }
  auto bytes = batch * cleared * position_bytes;
  parallel_for(batch * rows, bytes, [&](int64_t begin, int64_t end) {
    for (auto row = begin; row < end; ++row) {
      auto clear_columns = [&](Range range) {
        auto first = row * width.size() + range.begin;
        std::memset(
            static_cast<char*>(to) + first * position_bytes, 0,
            range.size() * position_bytes);
      };
      auto h = row % height.size();
      auto d = row / height.size() % depth.size();
      if (depth.of[d].count == 0 || height.of[h].count == 0) {
        clear_columns({0, width.size()});
      } else {
        columns.for_each(clear_columns);
      }
    }
  });
}

} // namespace mlx_pooling::cpu
