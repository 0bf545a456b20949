#include "cpu/quads.h"

#include <algorithm>

namespace mlx_pooling::cpu {

Quads::Quads(const Links& links, int64_t channels)
    : width_(links.axes[2].size()),
      planes_(ceil_div(links.axes[0].size(), int64_t{2})),
      rows_(ceil_div(links.axes[1].size(), int64_t{2})) {
  constexpr int64_t kCachedElements = 128 * 1024; // of what a quad reads
  constexpr int64_t kRows = (kQuadKernel + 1) * (kQuadKernel + 1);
  // What parts of a row have in common is visited twice.
  auto most =
      std::max<int64_t>(kCachedElements / kRows / channels, 8 * kQuadKernel);
  parts_ = ceil_div(width_, most);
}

Quad Quads::operator[](int64_t i) const {
  auto row = i / planes_;
  auto part = row / rows_;
  auto index = part % parts_;
  return {
      part / parts_,
      2 * (i % planes_),
      2 * (row % rows_),
      {index * width_ / parts_, (index + 1) * width_ / parts_}};
}

} // namespace mlx_pooling::cpu
