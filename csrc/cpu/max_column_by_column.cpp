#include "cpu/column_by_column.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Windows [begin, end) of one row. False if there is a NaN, and the rule was
// not for that.
template <typename T, bool kTaps, Rule kRule>
bool reduce(const MaxTask& task, int64_t begin, int64_t end) {
  const MaxEnds<Compared<T>, kTaps, kRule> ends(task, flips<T>(task.minimum));
  return ColumnByColumn(task, ends).run(begin, end);
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  auto width = task.links.axes[2].size();
  with_maximum(task, [&]<typename T, bool kTaps>() {
    for (auto i = begin, next = i; i < end; i = next) {
      next = std::min(end, (i / width + 1) * width);
      with_rule<T>(
          [&]<Rule kRule>() { return reduce<T, kTaps, kRule>(task, i, next); });
    }
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
