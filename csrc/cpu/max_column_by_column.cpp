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

template <typename T, bool kTaps>
void reduce_rows(const MaxTask& task, int64_t begin, int64_t end) {
  auto width = task.links.axes[2].size();
  for (auto i = begin; i < end;) {
    auto next = std::min(end, (i / width + 1) * width);
    bool is_done = reduce<T, kTaps, Rule::fast>(task, i, next);
    if constexpr (std::is_floating_point_v<Arithmetic<T>>) {
      if (!is_done) {
        reduce<T, kTaps, Rule::exact>(task, i, next);
      }
    }
    i = next;
  }
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&]<typename T>(T) {
    task.offsets ? reduce_rows<T, true>(task, begin, end)
                 : reduce_rows<T, false>(task, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
