#include <algorithm>
#include <vector>

#include "cpu/block_sums.h"
#include "cpu/kernels.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// A row of windows' cotangents, and of each window the tap that won: those from
// `first_tap` on are looked for.
template <typename A>
struct Row {
  const A* cotangents;
  const uint8_t* taps;
  uint8_t first_tap;
};

// The same of one row or several, to be made.
template <typename A>
struct NewRows {
  NewRows(Scratch& scratch, int64_t elements)
      : cotangents(scratch.take<A>(elements)),
        taps(scratch.take<uint8_t>(elements)) {}

  A* cotangents;
  uint8_t* taps;
};

// Elements to what is asked for of each row while it is read: most rows are in
// a cache, but not in the first.
constexpr uintptr_t kElementsAhead = 512;

// Larger than any tap that is looked for.
constexpr uint8_t kNoTap = 255;

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
        plane_(scratch_, depth_.kernel > 1 ? height_.span * row_ : 0),
        line_(scratch_, std::min(row_, most_linked()) + 2 * kBlock) {}

  // Positions [begin, end).
  void run(int64_t begin, int64_t end) {
    for (auto i = begin; i < end;) {
      auto row = i / width_.size();
      auto first = i - row * width_.size();
      auto last =
          std::min({first + most_inputs(), width_.size(), first + end - i});
      run(row, {first, last});
      i += last - first;
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

  // Inputs of a row of all.
  void run(int64_t row, Range inputs) {
    auto plane = row / height_.size();
    auto* dx = static_cast<T*>(task_.to) + row * width_.size() * channels_;
    auto in_line = [&](auto row_at) {
      return rows_in_line(
          height_, row % height_.size(), links_.kernel_width, row_at);
    };
    if (depth_.kernel > 1) {
      auto rows = in_line([&](int64_t h) { return row_of_plane(plane, h); });
      return collect(rows, inputs, dx);
    }
    const Link above = depth_.of[plane % depth_.size()];
    std::vector<Row<T>> rows;
    if (above.count > 0) {
      auto from = plane / depth_.size() * depth_.other_size + above.first;
      rows = in_line([&](int64_t h) { return row_of_windows(from, h); });
    }
    collect(rows, inputs, dx);
  }

  // Those that a position of the axis is linked to, from one to the next of
  // which there are so many taps.
  template <typename RowAt>
  static auto rows_in_line(
      const AxisLinks& axis, int64_t position, int64_t taps, RowAt row_at) {
    const Link link = axis.of[position];
    std::vector<decltype(row_at(0))> rows;
    rows.reserve(link.count);
    for (int64_t k = 0; k < link.count; ++k) {
      auto other = link.first + k * axis.step;
      rows.push_back(row_at(other));
      auto tap = link.tap + k * axis.tap_step;
      rows.back().first_tap = static_cast<uint8_t>(tap * taps);
    }
    return rows;
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
      auto taps = links_.kernel_height * links_.kernel_width;
      auto rows = rows_in_line(
          depth_, plane % depth_.size(), taps,
          [&](int64_t d) { return row_of_windows(sample + d, next_row_); });
      join(rows, taps, {0, row_}, plane_, -slot(next_row_));
    }
    return {plane_.cotangents + slot(h), plane_.taps + slot(h), 0};
  }

  int64_t slot(int64_t h) const {
    return h % height_.span * row_;
  }

  // Passes on what is for one of so many taps from each row's first on, to the
  // same elements from `base` on. Goes on to the end of a block.
  template <typename From>
  void join(
      const std::vector<Row<From>>& rows,
      int64_t taps,
      Range elements,
      const NewRows<A>& to,
      int64_t base) const {
    with_count(rows.size(), [&](auto count) MLX_POOLING_LAMBDA {
      const auto* from = rows.data();
      const auto last = static_cast<uint8_t>(taps - 1);
      for (auto j = elements.begin; j < elements.end; j += kBlock) {
        auto at = std::min(j, row_ - kBlock);
        BlockSums<T, kVectors> sums;
        auto found = broadcast<uint8_t, kBlock>(kNoTap);
        for (int64_t r = 0; r < count; ++r) {
          auto tap = load<kBlock>(from[r].taps + at) -
              broadcast<uint8_t, kBlock>(from[r].first_tap);
          fetch_lines_ahead<kBlock * sizeof(From)>(
              from[r].cotangents + at, kElementsAhead * sizeof(From));
          fetch_lines_ahead<kBlock>(from[r].taps + at, kElementsAhead);
          sums.add(from[r].cotangents + at, BlockMask::at_most(tap, last));
          found = smaller<kBlock>(tap, found);
        }
        sums.for_each([&](int first, auto sum) MLX_POOLING_LAMBDA {
          store<kLanes>(to.cotangents + at - base + first, sum);
        });
        store<kBlock>(to.taps + at - base, found);
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
  template <typename From>
  void collect(const std::vector<Row<From>>& rows, Range inputs, T* dx) {
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
        join(
            rows, links_.kernel_width, {joined, needed}, line_,
            line_begin_ - kBlock);
        joined += ceil_div(needed - joined, kBlock) * kBlock;
      }
      while (i < end) {
        const auto till = std::min(alike->end, end);
        hand_out(*alike, {i, till}, dx);
        i = till;
        if (i == alike->end) {
          ++alike;
        }
      }
    }
  }

  // What the line passes on to inputs that are linked so. What comes after them
  // of the part of the row may be overwritten.
  MLX_POOLING_INLINE void
  hand_out(const Alike& alike, Range inputs, T* dx) const {
    // Copies, which no store can change.
    const auto* cotangents = line_.cotangents;
    const auto* taps = line_.taps;
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
  NewRows<A> line_;
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
