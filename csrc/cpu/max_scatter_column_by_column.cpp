#include "cpu/column_by_column.h"
#include "cpu/compare.h"
#include "cpu/dispatch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each input adds up the cotangents of the windows it won. Those of the same
// columns that find their winner in the same row find the same one there: they
// are added up first, and then handed out. Totals of the inputs that
// neighbouring windows have in common stay in registers.
template <typename T, int K>
class CollectByColumn {
 public:
  explicit CollectByColumn(const MaxTask& task)
      : task_(task), width_(task.links.axes[2]), channels_(task.channels) {}

  // Inputs [begin, end) of one row.
  void run(int64_t begin, int64_t end) const {
    const Walk walk(task_.links, begin);
    for_each_block<A, kLanes, kMost>(
        channels_, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          collect<U>(walk, begin, end, c);
        });
  }

 private:
  using A = Arithmetic<T>;
  static constexpr int kLanes = kFullLanes<A>;
  // Where a row's winner is. In bytes, if comparing them gives a mask.
  using Lane = std::conditional_t<
      adds_under_mask<T, kLanes>,
      uint8_t,
      OffsetLane<A, uint8_t>>;
  using Column = Vec<Lane, kLanes>;
  static constexpr int kMost = kRegisters / (K + 2);

  template <int U>
  void collect(const Walk& walk, int64_t begin, int64_t end, int64_t c) const {
    auto ahead = positions_ahead(U * kLanes * sizeof(T)) * channels_;
    auto* dx = static_cast<T*>(task_.to) + c;
    auto* dy = static_cast<const T*>(task_.from) + walk.plane() * channels_ + c;
    auto* offsets = static_cast<const uint8_t*>(task_.offsets) +
        walk.plane() * channels_ + c;
    const auto none = broadcast<Lane, kLanes>(K);
    Vec<A, kLanes> totals[K][U] = {};
    auto w = walk.w() + *width_.origin;
    for (auto i = begin + 1 - K; i < end; ++i, ++w) {
      if (w >= 0 && w < width_.other_size) {
        Vec<A, kLanes> sums[U] = {};
        Column columns[U];
        std::fill_n(columns, U, none);
        walk.for_each_linked_row([&](const LinkedRow& row) MLX_POOLING_LAMBDA {
          auto at = (row.spatial + w) * channels_;
          auto first = broadcast<Lane, kLanes>(static_cast<Lane>(row.tap));
          for (int u = 0; u < U; ++u) {
            auto share = load<kLanes>(dy + at + u * kLanes);
            auto winner = load<kLanes>(offsets + at + u * kLanes);
            // Of winners of other rows, this wraps round to K or more.
            Column column = resize<Lane, kLanes>(winner) - first;
            sums[u] =
                sum_where<T, Where::less, kLanes>(sums[u], share, column, none);
            columns[u] = smaller<kLanes>(column, columns[u]);
          }
        });
        for (int u = 0; u < U; ++u) {
          for (int k = 0; k < K; ++k) {
            totals[k][u] = sum_where<T, Where::equal, kLanes>(
                totals[k][u], sums[u], columns[u],
                broadcast<Lane, kLanes>(static_cast<Lane>(k)));
          }
        }
        auto newest = (walk.last_row() + w) * channels_;
        fetch_all_ahead<U * kLanes * sizeof(T)>(dy + newest, ahead * sizeof(T));
        fetch_ahead<64>(offsets + newest, ahead);
      }
      for (int u = 0; u < U; ++u) {
        if (i >= begin) {
          auto* to = dx + i * channels_ + u * kLanes;
          store_result(
              to, stored<T, kLanes>(totals[0][u]), ahead * sizeof(T),
              task_.around_caches);
        }
        for (int k = 1; k < K; ++k) {
          totals[k - 1][u] = totals[k][u];
        }
        totals[K - 1][u] = Vec<A, kLanes>{};
      }
    }
  }

  const MaxTask& task_;
  const AxisLinks& width_;
  int64_t channels_;
};

} // namespace

void max_scatter_column_by_column(
    const MaxTask& task, int64_t begin, int64_t end) {
  with_columns(task.links.axes[2].kernel, [&]<int K>() {
    with_added_type(task.dtype, [&]<typename T>(T) {
      const CollectByColumn<T, K> columns(task);
      for_each_row(task, begin, end, [&](int64_t first, int64_t last) {
        columns.run(first, last);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
