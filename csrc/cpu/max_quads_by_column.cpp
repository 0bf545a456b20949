#include <algorithm>
#include <array>

#include "cpu/column_by_column.h"
#include "cpu/column_ring.h"
#include "cpu/dispatch.h"
#include "cpu/max_ends.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/quads.h"
#include "cpu/rows_ahead.h"
#include "cpu/scratch.h"
#include "cpu/unrolled.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

constexpr int K = kQuadKernel;
constexpr int kRows = K + 1; // that a quad reads of each of as many planes
constexpr int kWindows = 4;

// The rows that a quad reads and writes.
struct QuadRows {
  QuadRows(const Links& links, const Quad& quad, int64_t channels) {
    auto& [depth, height, width] = links.axes;
    auto row_at = [](const AxisLinks& axis, int64_t o, int i) {
      return std::clamp<int64_t>(
          o + *axis.origin() + i, 0, axis.other_size - 1);
    };
    auto first_d = quad.d + *depth.origin();
    auto first_h = quad.h + *height.origin();
    for (int i = 0; i < kRows; ++i) {
      auto d = row_at(depth, quad.d, i);
      for (int j = 0; j < kRows; ++j) {
        auto h = row_at(height, quad.h, j);
        auto row = d * height.other_size + h;
        auto begin = row * width.other_size + quad.width.begin;
        from[i * kRows + j].number =
            (quad.sample * links.other_plane() + begin) * channels;
        taps[i * kRows + j] = first_tap(d - first_d, h - first_h);
      }
    }
    for (int n = 0; n < kWindows; ++n) {
      auto d = quad.d + n / 2;
      auto h = quad.h + n % 2;
      auto row = (quad.sample * depth.size() + d) * height.size() + h;
      bool is_there = d < depth.size() && h < height.size();
      outputs[n] = is_there ? row * width.size() : -1;
    }
  }

  // Of a row of the quad's first window, or as if that went on.
  static constexpr int64_t first_tap(int64_t plane, int64_t row) {
    return (plane * K + row) * K;
  }

  // What the part of each row of each plane begins with, padding aside. Of one
  // beyond the input that of the nearest there is, which all of its windows
  // reach.
  std::array<FirstElement, kRows * kRows> from;
  std::array<int64_t, kRows * kRows> taps;
  int64_t outputs[kWindows]; // positions where each begins, if there is one
};

// The maxima of windows of 3 x 3 x 3, one apart, of a quad at once, column by
// column: of the rows that its windows reach, each is read once, not 36 for
// those of one after the other.
template <typename T, typename Tap>
class MaxQuads {
 public:
  explicit MaxQuads(const MaxTask& task) : task_(task), ends_(task) {}

  // False if there is a NaN.
  bool run(const Quad& quad, const Quad& next) const {
    const QuadRows rows(task_.links, quad, task_.channels);
    const QuadRows next_rows(task_.links, next, task_.channels);
    const RowsAhead ahead(rows.from, next_rows.from);
    bool is_done = true;
    for_each_ringed_block<Op>(task_.channels, K * kWindows, [&](Range block) {
      is_done = reduce(quad, rows, ahead, block) && is_done;
    });
    return is_done;
  }

 private:
  using Ends = MaxEnds<T, Tap, Rule::fast>;
  using Op = typename Ends::Op;
  using A = typename Op::Value;
  static constexpr int kLanes = Op::kLanes;
  using Cell = typename Op::template Cell<kLanes>;
  using Cells = std::array<Cell, kWindows>;
  using Watch = NanWatch<A, kLanes>;

  // Some channels, position after position.
  bool reduce(
      const Quad& quad,
      const QuadRows& rows,
      const RowsAhead& next_rows,
      Range block) const {
    const auto channels = task_.channels;
    auto ends = ends_;
    if constexpr (!fills_lines<kLanes * sizeof(T)>) {
      // Stores of parts of lines of four rows alternate.
      ends.stay_in_caches();
    }
    Watch watch;
    Scratch scratch;
    ColumnRing<Op, K> ring(kWindows * block.size(), scratch);
    auto in_ring = [size = block.size()](int n, int64_t c)
                       MLX_POOLING_LAMBDA { return n * size + c; };
    auto& width = task_.links.axes[2];
    auto w = quad.width.begin + *width.origin();
    auto for_each_vector = [&](auto visit) MLX_POOLING_LAMBDA {
      for_each_block<typename Op::Lane, kLanes, 1>(block.size(), visit);
    };
    auto next = [&]() MLX_POOLING_LAMBDA {
      if (w >= 0 && w < width.other_size) {
        const auto newest = ring.next();
        const auto first = (w - quad.width.begin) * channels + block.begin;
        for_each_vector([&](Vectors<1>, int64_t c) MLX_POOLING_LAMBDA {
          const auto cells = column(ends, rows, first + c, watch);
          unrolled<kWindows>([&]<int N>() MLX_POOLING_LAMBDA {
            Op::template write<kLanes>(newest + in_ring(N, c), cells[N]);
          });
        });
      } else {
        ring.next_outside();
      }
      ++w;
    };
    for (int k = 1; k < K; ++k) {
      next();
    }
    // All blocks of channels together ask for the next quad's rows.
    auto* asked =
        static_cast<const T*>(task_.from) + block.begin * quad.width.size();
    for (auto i = quad.width.begin; i < quad.width.end; ++i) {
      next();
      for_each_vector([&](Vectors<1>, int64_t c) MLX_POOLING_LAMBDA {
        if (c * sizeof(T) % kLineBytes ==
            0) { // a line that vectors share, once
          next_rows.fetch<kLanes * sizeof(T)>(asked + c);
        }
        unrolled<kWindows>([&]<int N>() MLX_POOLING_LAMBDA {
          auto cell = [&](int k) MLX_POOLING_LAMBDA {
            return Op::template read<kLanes>(ring[k] + in_ring(N, c));
          };
          write<N>(ends, rows, i, block.begin + c, cell(0), cell(1), cell(2));
        });
      });
      asked += block.size();
    }
    return !watch.saw_nan();
  }

  // Window N of position i, of its three columns, if there is one.
  template <int N>
  MLX_POOLING_INLINE void write(
      const Ends& ends,
      const QuadRows& rows,
      int64_t i,
      int64_t c,
      const Cell& first,
      const Cell& second,
      const Cell& third) const {
    if (rows.outputs[N] >= 0) {
      auto cell = Op::template joined_aside<kLanes>(
          std::array{first, moved(second, 1), moved(third, 2)});
      constexpr auto kFirst = QuadRows::first_tap(N / 2, N % 2);
      ends.template write_cell<kLanes>(
          (rows.outputs[N] + i) * task_.channels + c, kAheadBytes,
          moved(cell, -kFirst), {});
    }
  }

  // A column of each of the four, over their rows.
  MLX_POOLING_INLINE Cells column(
      const Ends& ends, const QuadRows& rows, int64_t at, Watch& watch) const {
    std::array<std::array<Cell, 2>, kRows> planes;
    unrolled<kRows>([&]<int I>() MLX_POOLING_LAMBDA {
      std::array<Cell, kRows> cells;
      unrolled<kRows>([&]<int J>() MLX_POOLING_LAMBDA {
        constexpr auto kRow = I * kRows + J;
        cells[J] = ends.template read_cell<kLanes>(
            rows.from[kRow].number + at, rows.taps[kRow]);
        watch.see(cells[J].value, J);
      });
      planes[I] = two_windows(cells[0], cells[1], cells[2], cells[3]);
    });
    Cells windows;
    unrolled<2>([&]<int H>() MLX_POOLING_LAMBDA {
      auto [first, second] =
          two_windows(planes[0][H], planes[1][H], planes[2][H], planes[3][H]);
      windows[H] = first;
      windows[2 + H] = second;
    });
    return windows;
  }

  MLX_POOLING_INLINE static Cell joined(const Cell& a, const Cell& b) {
    return Op::template joined<kLanes>(a, b);
  }

  MLX_POOLING_INLINE static Cell moved(const Cell& cell, int64_t taps) {
    return Op::template moved<kLanes>(cell, taps);
  }

  // Of all but the last, and all but the first.
  MLX_POOLING_INLINE static std::array<Cell, 2>
  two_windows(const Cell& a, const Cell& b, const Cell& c, const Cell& d) {
    auto middle = joined(b, c);
    return {joined(a, middle), joined(middle, d)};
  }

  const MaxTask& task_;
  Ends ends_;
};

template <typename T, typename Tap>
void reduce(const MaxTask& task, int64_t begin, int64_t end) {
  const MaxQuads<T, Tap> by_column(task);
  const Quads quads(task.links, task.channels);
  for (auto i = begin; i < end; ++i) {
    auto quad = quads[i];
    if (by_column.run(quad, quads[std::min(i + 1, end - 1)])) {
      continue;
    }
    // So few taps may be walked over, where that is rare.
    for (auto row : QuadRows(task.links, quad, task.channels).outputs) {
      if (row >= 0) {
        cpu::kernels().max_walk(
            task, row + quad.width.begin, row + quad.width.end);
      }
    }
  }
}

} // namespace

void max_quads_by_column(const MaxTask& task, int64_t begin, int64_t end) {
  with_value_and_tap<uint8_t>(task, true, [&]<typename Value, typename Tap>() {
    with_columns_of<Value>(
        task.channels, [&]<typename T>() { reduce<T, Tap>(task, begin, end); });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
