#include "cpu/clear.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

namespace {

constexpr int64_t kLine = 64;

// Whole lines, where there is an instruction for it.
void clear_around_caches(char* begin, char* end) {
#if defined(__SSE2__)
  for (; end - begin >= kLine; begin += kLine) {
    for (int64_t i = 0; i < kLine; i += sizeof(__m128i)) {
      _mm_stream_si128(
          reinterpret_cast<__m128i*>(begin + i), _mm_setzero_si128());
    }
  }
  _mm_sfence(); // such stores come in no order otherwise
#endif
  std::memset(begin, 0, end - begin);
}

int64_t linked_positions(const AxisLinks& axis) {
  if (!axis.some_empty) {
    return axis.size();
  }
  int64_t count = 0;
  for (int64_t i = 0; i < axis.size(); ++i) {
    count += axis.of[i].count > 0 ? 1 : 0;
  }
  return count;
}

void clear_unlinked_columns(
    const AxisLinks& width, int64_t position_bytes, char* row) {
  for (int64_t w = 0; w < width.size(); ++w) {
    if (width.of[w].count == 0) {
      std::memset(row + w * position_bytes, 0, position_bytes);
    }
  }
}

} // namespace

void clear(void* to, int64_t bytes, bool around_caches) {
  parallel_for(ceil_div(bytes, kLine), bytes, [=](int64_t begin, int64_t end) {
    auto* first = static_cast<char*>(to) + begin * kLine;
    auto* last = static_cast<char*>(to) + std::min(end * kLine, bytes);
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
  auto positions = depth.size() * height.size() * width.size();
  auto unlinked = positions -
      linked_positions(depth) * linked_positions(height) *
          linked_positions(width);
  if (unlinked == 0) {
    return;
  }
  auto rows = batch * depth.size() * height.size();
  auto row_bytes = width.size() * position_bytes;
  auto bytes = batch * unlinked * position_bytes;
  parallel_for(rows, bytes, [&](int64_t begin, int64_t end) {
    for (auto row = begin; row < end; ++row) {
      auto* cells = static_cast<char*>(to) + row * row_bytes;
      auto h = row % height.size();
      auto d = row / height.size() % depth.size();
      if (depth.of[d].count == 0 || height.of[h].count == 0) {
        std::memset(cells, 0, row_bytes);
      } else if (width.some_empty) {
        clear_unlinked_columns(width, position_bytes, cells);
      }
    }
  });
}

} // namespace mlx_pooling::cpu
