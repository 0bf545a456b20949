#include <algorithm>
#include <array>
#include <vector>

#include "cpu/block_sums.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// A row of windows' cotangents, and of each window the tap that won: those from
// `first_tap` on are looked for.
template <typename A>
struct Row {
  using Value = A;

  const A* cotangents;
  const uint8_t* taps;
  uint8_t first_tap;
};

// The same of one row or several, to be made.
template <typename A>
struct NewRows {
  NewRows() = default;
  NewRows(Scratch& scratch, int64_t elements)
      : cotangents(scratch.take<A>(elements)),
        taps(scratch.take<uint8_t>(elements)) {}

  A* cotangents;
  uint8_t* taps;
};

// Rows of windows in line with a row of inputs, or with two neighbouring ones:
// those before `end` with the first of them, those from `next_begin` on with
// the next.
template <typename A>
struct RowsInLine {
  std::vector<Row<A>> rows;
  int64_t end = 0;
  int64_t next_begin = 0;
};

// Elements to what is asked for of each row while it is read: most rows are in
// a cache, but not in the first.
constexpr uintptr_t kElementsAhead = 512;

// Larger than any tap that is looked for.
constexpr uint8_t kNotLookedFor = 255;

// Each input adds up the cotangents of the windows it won, axis by axis: those
// windows in line along an axis that find their winner in the same slice of the
// input find the same one there. What their cotangents add up to is passed on
// along the next axis.
template <typename T>
class CollectAxisByAxis {
 public:
  explicit CollectAxisByAxis(const MaxTask& task)
      : links_(task.links),
        task_(task),
        channels_(task.channels),
        row_(width_.other_size * channels_),
        plane_(scratch_, depth_.kernel > 1 ? kept_rows() * row_ : 0),
        lines_{new_line(), new_line()} {}

  // Positions [begin, end).
  void run(int64_t begin, int64_t end) {
    const auto size = width_.size();
    for (auto i = begin; i < end;) {
      auto row = i / size;
      auto first = i - row * size;
      Range inputs{first, std::min(size, first + end - i)};
      bool is_pair = first == 0 && i + 2 * size <= end && shares_with_next(row);
      while (inputs.begin < inputs.end) {
        auto till = std::min(inputs.begin + most_inputs(), inputs.end);
        Range part{inputs.begin, till};
        if (is_pair) {
          run<2>(row, part);
        } else {
          run<1>(row, part);
        }
        inputs.begin = till;
      }
      i += is_pair ? 2 * size : inputs.end - first;
    }
  }

 private:
  using A = Arithmetic<T>;
  static constexpr int kLanes = kFullLanes<A>;
  static constexpr int kVectors = kBlock / kLanes;

  // Of a row at a time. What such parts have in common is made twice.
  int64_t most_inputs() const {
    constexpr int64_t kElements = 16 * 1024;
    return ceil_div(kElements, channels_) + 8 * width_.span;
  }

  // Elements of a row of windows that those reach.
  int64_t most_linked() const {
    return (most_inputs() + width_.kernel * width_.step) * channels_;
  }

  NewRows<A> new_line() {
    return {scratch_, std::min(row_, most_linked()) + 2 * kBlock};
  }

  // Whether a row of inputs and the next are linked to neighbouring rows of
  // windows, most of which are the same: both are made of what is read once.
  bool shares_with_next(int64_t row) const {
    constexpr bool kHasRegisters = 2 * kVectors <= kRegisters;
    auto h = row % height_.size();
    return kHasRegisters && height_.kernel > 1 && height_.step == 1 &&
        height_.origin() && h + 1 < height_.size() && height_.of[h].count > 0 &&
        height_.of[h + 1].count > 0;
  }

  // Of a plane, as many rows as two neighbouring rows of inputs are linked to.
  int64_t kept_rows() const {
    return height_.span + 1;
  }

  // Inputs of a row of all, or of N rows.
  template <int N>
  void run(int64_t row, Range inputs) {
    auto plane = row / height_.size();
    auto* dx = static_cast<T*>(task_.to) + row * width_.size() * channels_;
    auto in_line = [&](auto row_at) {
      return rows_in_line<N>(
          height_, row % height_.size(), links_.row_taps(), row_at);
    };
    if (depth_.kernel > 1) {
      auto rows = in_line([&](int64_t h) { return row_of_plane(plane, h); });
      return collect<N>(rows, inputs, dx);
    }
    const Link above = depth_.of[plane % depth_.size()];
    RowsInLine<T> rows;
    if (above.count > 0) {
      auto from = plane / depth_.size() * depth_.other_size + above.first;
      rows = in_line([&](int64_t h) { return row_of_windows(from, h); });
    }
    collect<N>(rows, inputs, dx);
  }

  // Those that a position of the axis is linked to, or that and the one it
  // shares with, from one to the next of which there are so many taps. The
  // first tap of a row that only the latter is linked to is less than 0, modulo
  // 256.
  template <int N, typename RowAt>
  static auto rows_in_line(
      const AxisLinks& axis, int64_t position, int64_t taps, RowAt row_at) {
    const Link link = axis.of[position];
    RowsInLine<typename decltype(row_at(0))::Value> line;
    auto count = link.count;
    line.end = count;
    if constexpr (N == 2) {
      count = axis.last(position + 1) + 1 - link.first;
      line.next_begin = axis.of[position + 1].first - link.first;
    }
    line.rows.reserve(count);
    for (int64_t k = 0; k < count; ++k) {
      auto other = link.first + k * axis.step;
      line.rows.push_back(row_at(other));
      auto tap = link.tap + k * axis.tap_step;
      line.rows.back().first_tap = static_cast<uint8_t>(tap * taps);
    }
    return line;
  }

  Row<T> row_of_windows(int64_t plane, int64_t h) const {
    auto at = (plane * height_.other_size + h) * row_;
    return {
        static_cast<const T*>(task_.from) + at,
        static_cast<const uint8_t*>(task_.offsets) + at, 0};
  }

  // What windows in line along depth pass on to a plane of inputs. Of a plane,
  // rows are asked for in order, and the last ones are kept.
  Row<A> row_of_plane(int64_t plane, int64_t h) {
    if (plane != number_of_plane_) {
      number_of_plane_ = plane;
      next_row_ = h;
    }
    for (; next_row_ <= h; ++next_row_) {
      auto sample = plane / depth_.size() * depth_.other_size;
      auto taps = links_.plane_taps();
      auto rows = rows_in_line<1>(
          depth_, plane % depth_.size(), taps,
          [&](int64_t d) { return row_of_windows(sample + d, next_row_); });
      join<1>(rows, taps, {0, row_}, &plane_, -slot(next_row_));
    }
    return {plane_.cotangents + slot(h), plane_.taps + slot(h), 0};
  }

  int64_t slot(int64_t h) const {
    return h % kept_rows() * row_;
  }

  // Passes on what is for one of so many taps from each row's first on, to the
  // same elements from `base` on. If there is a next row of inputs, what is for
  // as many taps after those is passed on to that. Goes on to the end of a
  // block.
  template <int N, typename From>
  void join(
      const RowsInLine<From>& line,
      int64_t taps,
      Range elements,
      const NewRows<A>* new_rows,
      int64_t base) const {
    // Not each number of two rows' is worth code of its own.
    with_count<(N > 1)>(line.rows.size(), [&](auto count) MLX_POOLING_LAMBDA {
      std::array<NewRows<A>, N> to; // where no store can change them
      std::copy_n(new_rows, N, to.begin());
      const auto* from = line.rows.data();
      const int64_t end = N > 1 ? line.end : count;
      const int64_t next_begin = N > 1 ? line.next_begin : count;
      const auto last = static_cast<uint8_t>(taps - 1);
      for (auto j = elements.begin; j < elements.end; j += kBlock) {
        auto at = std::min(j, row_ - kBlock);
        BlockSums<T, kVectors> sums[N];
        BlockBytes found[N];
        std::fill_n(found, N, broadcast<uint8_t, kBlock>(kNotLookedFor));
        auto add = [&](int64_t r, int first_n, int end_n) MLX_POOLING_LAMBDA {
          auto* cotangents = from[r].cotangents + at;
          fetch_lines_ahead<kBlock * sizeof(From)>(
              cotangents, kElementsAhead * sizeof(From));
          fetch_lines_ahead<kBlock>(from[r].taps + at, kElementsAhead);
          auto taps_here = load<kBlock>(from[r].taps + at);
          for (int n = first_n; n < end_n; ++n) {
            auto first = static_cast<uint8_t>(from[r].first_tap + n * taps);
            auto tap = taps_here - broadcast<uint8_t, kBlock>(first);
            sums[n].add(cotangents, BlockMask::at_most(tap, last));
            found[n] = smaller<kBlock>(tap, found[n]);
          }
        };
        int64_t r = 0;
        for (; r < next_begin; ++r) {
          add(r, 0, 1);
        }
        if constexpr (N > 1) {
          for (; r < end; ++r) {
            add(r, 0, 2);
          }
          for (; r < count; ++r) {
            add(r, 1, 2);
          }
        }
        for (int n = 0; n < N; ++n) {
          sums[n].for_each([&](int first, auto sum) MLX_POOLING_LAMBDA {
            store<kLanes>(to[n].cotangents + at - base + first, sum);
          });
          store<kBlock>(to[n].taps + at - base, found[n]);
        }
      }
    });
  }

  // Neighbouring inputs of a row that are linked to neighbours, each as the one
  // before.
  struct Alike {
    int64_t end;   // where the next begin
    int64_t from;  // from an element to the first of the line it is linked to
    int64_t count; // of those
    int64_t tap;   // of the first
  };

  // Parts of rows that follow each other are often the same.
  void divide(Range inputs) {
    if (inputs.begin == inputs_.begin && inputs.end == inputs_.end) {
      return;
    }
    inputs_ = inputs;
    line_begin_ = linked(width_, inputs).begin * channels_;
    alike_.clear();
    auto& links = width_.of;
    for (auto w = inputs.begin; w < inputs.end;) {
      const Link link = links[w];
      auto from = (link.first - w) * channels_ - line_begin_ + kBlock;
      bool is_run = links.period() == 1 && links.repeating().contains(w);
      w = is_run ? std::min(links.repeating().end, inputs.end) : w + 1;
      alike_.push_back({w, from, link.count, link.tap});
    }
  }

  // Makes inputs of a row of what rows pass on to it.
  template <int N, typename From>
  void collect(const RowsInLine<From>& rows, Range inputs, T* dx) {
    // So many elements stay in the first level of cache.
    constexpr int64_t kChunk = 512;
    divide(inputs);
    const auto chunk = ceil_div(kChunk, channels_);
    auto joined = line_begin_;
    auto alike = alike_.data();
    for (auto i = inputs.begin; i < inputs.end;) {
      const auto end = std::min(i + chunk, inputs.end);
      auto needed = linked(width_, {i, end}).end * channels_;
      if (joined < needed) {
        join<N>(
            rows, links_.row_taps(), {joined, needed}, lines_.data(),
            line_begin_ - kBlock);
        joined += ceil_div(needed - joined, kBlock) * kBlock;
      }
      while (i < end) {
        const auto till = std::min(alike->end, end);
        for (int n = 0; n < N; ++n) {
          auto next = n * width_.size() * channels_;
          hand_out(*alike, {i, till}, lines_[n], dx + next);
        }
        i = till;
        if (i == alike->end) {
          ++alike;
        }
      }
    }
  }

  // What the line passes on to inputs that are linked so. What comes after them
  // of the part of the row may be overwritten.
  MLX_POOLING_INLINE void hand_out(
      const Alike& alike, Range inputs, const NewRows<A>& line, T* dx) const {
    // Copies, which no store can change.
    const auto* cotangents = line.cotangents;
    const auto* taps = line.taps;
    const auto from = alike.from;
    const auto first_tap = alike.tap;
    const auto tap_step = width_.tap_step;
    const auto next = width_.step * channels_;
    const auto end = inputs_.end * channels_;
    const auto around_caches = task_.around_caches;
    with_count(alike.count, [&](auto count) MLX_POOLING_LAMBDA {
      auto block = [=]<int V>(Vectors<V>, int64_t j) MLX_POOLING_LAMBDA {
        BlockSums<T, V> sums;
        for (int64_t k = 0; k < count; ++k) {
          auto at = from + j + k * next;
          auto tap = static_cast<uint8_t>(first_tap + k * tap_step);
          auto is_won = BlockMask::equal(load<kBlock>(taps + at), tap);
          sums.add(cotangents + at, is_won);
        }
        if (j + V * kLanes <= end) {
          sums.for_each([&](int first, auto sum) MLX_POOLING_LAMBDA {
            store_result(
                dx + j + first, stored<T, kLanes>(sum), kAheadBytes,
                around_caches);
          });
        } else {
          T some[V * kLanes];
          sums.for_each([&](int first, auto sum) MLX_POOLING_LAMBDA {
            store<kLanes>(some + first, sum);
          });
          std::copy_n(some, end - j, dx + j);
        }
      };
      constexpr int kFew = std::min(2, kVectors);
      auto j = inputs.begin * channels_;
      const auto last = inputs.end * channels_;
      for (; j + kFew * kLanes < last; j += kBlock) {
        block(Vectors<kVectors>{}, j);
      }
      if (j + kLanes < last) {
        block(Vectors<kFew>{}, j);
      } else if (j < last) {
        block(Vectors<1>{}, j);
      }
    });
  }

  const Links& links_;
  const MaxTask& task_;
  const AxisLinks& depth_ = links_.axes[0];
  const AxisLinks& height_ = links_.axes[1];
  const AxisLinks& width_ = links_.axes[2];
  int64_t channels_;
  int64_t row_; // elements of one of windows
  Scratch scratch_;
  NewRows<A> plane_; // its last rows
  int64_t number_of_plane_ = -1;
  int64_t next_row_ = 0;
  std::array<NewRows<A>, 2> lines_;
  Range inputs_{0, 0};
  int64_t line_begin_ = 0;
  std::vector<Alike> alike_; // of those inputs
};

} // namespace

void max_scatter_axis_by_axis(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    CollectAxisByAxis<T>(task).run(begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
