#include "cpu/clear.h"

#include <algorithm>
#include <cstring>

#include "cpu/parallel.h"

namespace mlx_pooling::cpu {

void clear_unlinked(
    const Links& links, int64_t batch, int64_t position_bytes, void* to) {
  auto& [depth, height, width] = links.axes;
  bool none = std::none_of(
      links.axes.begin(), links.axes.end(),
      [](auto& axis) { return axis.some_empty; });
  if (none) {
    return;
  }
  auto row_bytes = width.size() * position_bytes;
  auto rows = batch * depth.size() * height.size();
  parallel_for(rows, rows * row_bytes, [&](int64_t begin, int64_t end) {
    for (auto row = begin; row < end; ++row) {
      auto* bytes = static_cast<char*>(to) + row * row_bytes;
      auto h = row % height.size();
      auto d = row / height.size() % depth.size();
      if (depth.of[d].count == 0 || height.of[h].count == 0) {
        std::memset(bytes, 0, row_bytes);
        continue;
      }
      for (int64_t w = 0; width.some_empty && w < width.size(); ++w) {
        if (width.of[w].count == 0) {
          std::memset(bytes + w * position_bytes, 0, position_bytes);
        }
      }
    }
  });
}

} // namespace mlx_pooling::cpu
