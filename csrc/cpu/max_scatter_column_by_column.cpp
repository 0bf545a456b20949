#include "cpu/column_by_column.h"
#include "cpu/compare.h"
#include "cpu/dispatch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each input adds up the cotangents of the windows it won. Windows of K columns
// are S apart, and totals of the inputs that neighbours have in common stay in
// registers.
template <typename T, int K, int S>
class CollectByColumn {
 public:
  explicit CollectByColumn(const MaxTask& task)
      : task_(task), width_(task.links.axes[2]), channels_(task.channels) {}

  void run(Range part, Range next) const {
    const Walk walk(task_.links, part.begin);
    const auto ahead = rows_ahead(task_, walk, next.begin);
    for_each_block<A, kLanes, kMost>(
        channels_, [&]<int U>(Vectors<U>, int64_t c) MLX_POOLING_LAMBDA {
          if (walk.linked_rows() < kManyRows) {
            collect<U, false>(walk, part, ahead, c);
          } else {
            collect<U, true>(walk, part, ahead, c);
          }
        });
  }

 private:
  using A = Arithmetic<T>;
  static constexpr int kLanes = kFullLanes<A>;
  // Which column a winner is in. In bytes, if comparing them gives a mask.
  using Lane = std::conditional_t<
      adds_under_mask<T, kLanes>,
      uint8_t,
      OffsetLane<A, uint8_t>>;
  using Column = Vec<Lane, kLanes>;
  using Total = Vec<A, kLanes>;
  // Each vector takes K totals, a share and its column, for two of which there
  // are registers besides those that may hold results.
  static constexpr int kMost = (kRegisters + 2) / (K + 2);
  // From so many rows of windows on, add_columns() takes less instructions than
  // add_windows().
  static constexpr int64_t kManyRows = 3;

  template <int U, bool kMany>
  void
  collect(const Walk& walk, Range part, const RowsAhead& next_rows, int64_t c)
      const {
    // Copies, which no store can change.
    const auto channels = channels_;
    const bool around_caches =
        fills_lines<U * kLanes * sizeof(T)> && task_.around_caches;
    const auto plane = walk.plane() * channels;
    auto* dx = static_cast<T*>(task_.to) + c;
    auto* dy = static_cast<const T*>(task_.from) + plane + c;
    auto* offsets = static_cast<const uint8_t*>(task_.offsets) + plane + c;
    const auto ahead = positions_ahead(U * kLanes * sizeof(T)) * channels;
    const auto windows = walk.linked_rows() > 0 ? width_.other_size : 0;
    const Range inputs{walk.w(), walk.w() + part.size()};
    const auto first = width_.spacing->first;
    auto w = (inputs.begin - first) / S - (K - 1) / S;
    auto i = first + w * S;
    auto to = (part.begin + i - inputs.begin) * channels;
    // All blocks of channels together ask for the next rows.
    const auto asked = c * part.size() / S;
    auto* next_dy = static_cast<const T*>(task_.from) + asked;
    auto* next_offsets = static_cast<const uint8_t*>(task_.offsets) + asked;
    Total totals[K][U] = {};
    for (; i < inputs.end; i += S, ++w, to += S * channels) {
      if (w >= 0 && w < windows) {
        auto at = w * channels;
        if constexpr (kMany) {
          add_columns<U>(walk, dy + at, offsets + at, totals);
        } else {
          add_windows<U>(walk, dy + at, offsets + at, totals);
        }
        next_rows.fetch<U * kLanes * sizeof(T)>(next_dy);
        next_rows.fetch<U * kLanes>(next_offsets);
        next_dy += U * kLanes;
        next_offsets += U * kLanes;
        auto newest = at + walk.last_row() * channels;
        fetch_all_ahead<U * kLanes * sizeof(T)>(dy + newest, ahead * sizeof(T));
        fetch_ahead<64>(offsets + newest, ahead);
      }
      for (int s = 0; s < S; ++s) {
        if (inputs.contains(i + s)) {
          for (int u = 0; u < U; ++u) {
            store_result(
                dx + to + s * channels + u * kLanes,
                stored<T, kLanes>(totals[s][u]), ahead * sizeof(T),
                around_caches);
          }
        }
      }
      for (int u = 0; u < U; ++u) {
        for (int k = 0; k < K; ++k) {
          totals[k][u] = k + S < K ? totals[(k + S) % K][u] : Total{};
        }
      }
    }
  }

  // Of windows above each other, whose first is at dy and offsets: each looks
  // for its winner.
  template <int U>
  MLX_POOLING_INLINE void add_windows(
      const Walk& walk,
      const T* dy,
      const uint8_t* offsets,
      Total (&totals)[K][U]) const {
    for_each_share<U>(
        walk, dy, offsets,
        [&](int u, Total share, Column column)
            MLX_POOLING_LAMBDA { add(totals, u, share, column); });
  }

  // The same: cotangents of windows that find their winner in the same row find
  // the same one there, and are added up before that is looked for.
  template <int U>
  MLX_POOLING_INLINE void add_columns(
      const Walk& walk,
      const T* dy,
      const uint8_t* offsets,
      Total (&totals)[K][U]) const {
    const auto none = broadcast<Lane, kLanes>(K);
    Total sums[U] = {};
    Column columns[U];
    std::fill_n(columns, U, none);
    for_each_share<U>(
        walk, dy, offsets,
        [&](int u, Total share, Column column) MLX_POOLING_LAMBDA {
          sums[u] =
              sum_where<T, Where::less, kLanes>(sums[u], share, column, none);
          columns[u] = smaller<kLanes>(column, columns[u]);
        });
    for (int u = 0; u < U; ++u) {
      add(totals, u, sums[u], columns[u]);
    }
  }

  // Calls visit(u, share, column) with vector u of the cotangent of each such
  // window, and which column of the inputs' row its winner is in.
  template <int U, typename Visit>
  MLX_POOLING_INLINE void for_each_share(
      const Walk& walk,
      const T* dy,
      const uint8_t* offsets,
      Visit visit) const {
    const auto channels = channels_;
    walk.for_each_linked_row([&](const LinkedRow& row) MLX_POOLING_LAMBDA {
      auto at = row.spatial * channels;
      for (int u = 0; u < U; ++u) {
        visit(
            u, load<kLanes>(dy + at + u * kLanes),
            column_in(row, offsets + at + u * kLanes));
      }
    });
  }

  // Of winners in other rows, this wraps round to K or more.
  MLX_POOLING_INLINE static Column
  column_in(const LinkedRow& row, const uint8_t* offsets) {
    auto first = broadcast<Lane, kLanes>(static_cast<Lane>(row.tap));
    return resize<Lane, kLanes>(load<kLanes>(offsets)) - first;
  }

  template <int U>
  MLX_POOLING_INLINE static void
  add(Total (&totals)[K][U], int u, Total share, Column column) {
    for (int k = 0; k < K; ++k) {
      totals[k][u] = sum_where<T, Where::equal, kLanes>(
          totals[k][u], share, column,
          broadcast<Lane, kLanes>(static_cast<Lane>(k)));
    }
  }

  const MaxTask& task_;
  const AxisLinks& width_;
  int64_t channels_;
};

// Calls visit<K, S>() for windows of K columns that are S apart, which
// method.cpp limits.
template <typename Visit>
void with_spaced_columns(const AxisLinks& width, Visit visit) {
  if (width.spacing->stride == 2) {
    return visit.template operator()<3, 2>();
  }
  with_columns(
      width.kernel, [&]<int K>() { visit.template operator()<K, 1>(); });
}

} // namespace

void max_scatter_column_by_column(
    const MaxTask& task, int64_t begin, int64_t end) {
  with_spaced_columns(task.links.axes[2], [&]<int K, int S>() {
    with_added_type(task.dtype, [&]<typename T>(T) {
      const CollectByColumn<T, K, S> columns(task);
      for_each_row(task, begin, end, [&](Range part, Range next) {
        columns.run(part, next);
      });
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
