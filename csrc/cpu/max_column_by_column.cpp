#include "cpu/column_by_column.h"
#include "cpu/max_ends.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Windows [begin, end) of one row. False if there is a NaN, and the rule was
// not for that.
template <int K, typename T, bool kTaps, Rule kRule>
bool reduce(const MaxTask& task, int64_t begin, int64_t end) {
  const MaxEnds<T, kTaps, kRule> ends(task);
  return ColumnByColumn<decltype(ends), K>(task, ends).run(begin, end);
}

} // namespace

void max_column_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  with_columns(task.links.axes[2].kernel, [&]<int K>() {
    with_compared_type(task.dtype, [&]<typename T>(T) {
      for_each_row(task, begin, end, [&](int64_t first, int64_t last) {
        with_rule<T>(task, [&]<bool kTaps, Rule kRule>() {
          return reduce<K, T, kTaps, kRule>(task, first, last);
        });
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
