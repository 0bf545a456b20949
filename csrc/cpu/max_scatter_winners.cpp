#include <algorithm>
#include <array>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"
#include "cpu/tap_positions.h"
#include "cpu/winner_runs.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Each window hands its cotangent to the input that won it. A unit owns some
// inputs and visits all windows that reach them, in order, so that what each
// input adds up does not depend on units either.
template <typename T, typename Offset>
class HandOut {
 public:
  explicit HandOut(const MaxTask& task) : task_(task) {}

  void run(const Tiling::Unit& unit) {
    Scratch scratch;
    auto& axes = task_.links.axes;
    auto axis = task_.tiling->axis();
    channels_ = unit.channels;
    auto inner = positions_behind(axis, task_.links);
    auto outer = unit.sample * axes[axis].size();
    begin_ = unit.band.begin * inner;
    size_ = unit.band.size() * inner;
    auto count = channels_.size();
    soon_ = positions_ahead(count * sizeof(float)) * task_.channels;
    // What is handed to inputs of other units is dropped at the end.
    totals_ = scratch.take<A>(size_ * count + std::max(count, kMostListed));
    std::fill_n(totals_, size_ * count, A{0});
    auto& taps = task_.winners->taps;
    reaches_ = scratch.take<int64_t>(taps.size());
    std::transform(taps.begin(), taps.end(), reaches_, [&](int64_t tap) {
      return tap == Winners::kNowhere ? tap : tap * count;
    });
    hand_out(unit, axis, linked(axes[axis], unit.band), scratch);
    store_totals(outer * inner + begin_);
  }

 private:
  using A = Arithmetic<T>;

  struct Row {
    Range windows;
    Range within;     // those whose winners are all inputs of this unit
    int64_t position; // of window 0
    int64_t start;    // of the inputs' row, from the unit's first
  };

  void hand_out(
      const Tiling::Unit& unit, int axis, Range outputs, Scratch& scratch) {
    if (auto& windows = task_.winners->windows) {
      const TapPositions<Offset> positions(*windows);
      return for_each_row(unit, axis, outputs, [&](const Row& row) {
        hand_out_unlisted(row, positions);
      });
    }
    if constexpr (kHasRuns && std::is_same_v<A, float> && sizeof(Offset) < 4) {
      auto& row_of_tap = task_.winners->row_of_tap;
      using Runs = WinnerRuns<T, Offset>;
      if (row_of_tap && Runs::are_of(task_.channels)) {
        const Runs runs(*row_of_tap, channels_.size(), task_.channels, scratch);
        return for_each_row(unit, axis, outputs, [&](const Row& row) {
          hand_out_runs(row, runs);
        });
      }
    }
    for_each_row(
        unit, axis, outputs, [&](const Row& row) { hand_out_row(row); });
  }

  template <typename Visit>
  void for_each_row(
      const Tiling::Unit& unit, int axis, Range outputs, Visit visit) const {
    auto& [depth, height, width] = task_.links.axes;
    auto of = [&](int i) {
      return i == axis ? outputs : Range{0, task_.links.axes[i].other_size};
    };
    auto within = [&](int i) {
      auto inputs =
          i == axis ? unit.band : Range{0, task_.links.axes[i].size()};
      return task_.winners->within(i, inputs);
    };
    const std::array all_within{within(0), within(1), within(2)};
    auto& starts = task_.winners->starts;
    for (auto d = of(0).begin; d < of(0).end; ++d) {
      for (auto h = of(1).begin; h < of(1).end; ++h) {
        bool row_is_within =
            all_within[0].contains(d) && all_within[1].contains(h);
        auto o = (unit.sample * depth.other_size + d) * height.other_size + h;
        auto start =
            (starts[0][d] * height.size() + starts[1][h]) * width.size();
        visit(
            Row{of(2), row_is_within ? all_within[2] : Range{0, 0},
                o * width.other_size, start - begin_});
      }
    }
  }

  // Calls visit(w, at, start) for each, with where its elements and its taps
  // begin.
  template <typename Visit>
  void for_each_window(const Row& row, Visit visit) const {
    for (auto w = row.windows.begin; w < row.windows.end; ++w) {
      auto at = (row.position + w) * task_.channels + channels_.begin;
      visit(w, at, row.start + task_.winners->starts[2][w]);
    }
  }

  void hand_out_row(const Row& row) {
    for_each_window(row, [&](int64_t w, int64_t at, int64_t start) {
      if (row.within.contains(w)) {
        hand_out_within(at, start);
      } else {
        hand_out_one(at, start);
      }
    });
  }

  void
  hand_out_unlisted(const Row& row, const TapPositions<Offset>& positions) {
    auto count = channels_.size();
    for_each_window(row, [&](int64_t, int64_t at, int64_t start) {
      auto* dy = static_cast<const T*>(task_.from) + at;
      auto* offsets = static_cast<const Offset*>(task_.offsets) + at;
      for (int64_t c = 0; c < count; ++c) {
        auto tap = offsets[c];
        auto winner = start + positions.template of<int64_t, 1>(tap);
        if (tap != kNoTap<Offset> && Range{0, size_}.contains(winner)) {
          add(totals_ + winner * count + c, dy + c);
        }
      }
    });
  }

  template <typename Runs>
  void hand_out_runs(const Row& row, const Runs& of_unit) {
    const auto runs = of_unit; // where no store can change it
    const auto [begin, end] = row.windows;
    auto at = [&](int64_t w) {
      return (row.position + w) * task_.channels + channels_.begin;
    };
    auto* dy = static_cast<const T*>(task_.from);
    auto* offsets = static_cast<const Offset*>(task_.offsets);
    runs.begin(begin, dy + at(begin), offsets + at(begin));
    for (auto first = begin; first < end;) {
      bool is_within = row.within.contains(first);
      auto border = is_within        ? row.within.end
          : first < row.within.begin ? row.within.begin
                                     : end;
      auto stop = std::min({border, end, first + runs.windows()});
      int64_t listed = 0;
      for (auto w = first + 1; w < std::min(stop + 1, end); ++w) {
        listed =
            runs.next(w, dy + at(w), offsets + at(w), w - 1 - first, listed);
      }
      if (stop == end) {
        listed = runs.end(offsets + at(end - 1), end - 1 - first, listed);
      }
      auto start = row.start + task_.winners->starts[2][first];
      hand_out_listed(runs, listed, start, is_within);
      first = stop;
    }
  }

  // The runs that are listed, of windows the first of which starts there.
  template <typename Runs>
  MLX_POOLING_INLINE void hand_out_listed(
      const Runs& runs, int64_t listed, int64_t start, bool all_within) {
    if (all_within) {
      const auto* reaches = reaches_;
      auto* totals = totals_ + start * channels_.size();
      for (int64_t i = 0; i < listed; ++i) {
        totals[reaches[runs.tap(i)] + runs.element(i)] += runs.sum(i);
      }
    } else {
      for (int64_t i = 0; i < listed; ++i) {
        totals_[reach(start, runs.tap(i), runs.element(i))] += runs.sum(i);
      }
    }
  }

  // From totals_ to where a tap of an element lies, which is counted from the
  // window that starts there; or to what is dropped, not all of it to one
  // place, where each would wait for the one before.
  MLX_POOLING_INLINE uint64_t
  reach(int64_t start, uint64_t tap, int64_t element) const {
    uint64_t none = task_.winners->taps.size() - 1;
    uint64_t outside = size_ * channels_.size();
    uint64_t reach =
        start * channels_.size() + reaches_[std::min(tap, none)] + element;
    return std::min(reach, outside + element);
  }

  // Of a window whose winners are all inputs of this unit.
  void hand_out_within(int64_t at, int64_t start) {
    auto* dy = static_cast<const T*>(task_.from) + at;
    auto* offsets = static_cast<const Offset*>(task_.offsets) + at;
    const auto* reaches = reaches_;
    auto count = channels_.size();
    auto* totals = totals_ + start * count;
    fetch(dy);
    fetch(offsets);
    for (int64_t c = 0; c < count; ++c) {
      add(totals + reaches[offsets[c]] + c, dy + c);
    }
  }

  // The same channels of a later window.
  template <typename V>
  MLX_POOLING_INLINE void fetch(const V* values) const {
    for (int64_t c = 0; c < channels_.size(); c += kLineBytes / sizeof(V)) {
      fetch_ahead<kLineBytes>(values + c, soon_ * sizeof(V));
    }
  }

  void hand_out_one(int64_t at, int64_t start) {
    auto* dy = static_cast<const T*>(task_.from) + at;
    auto* offsets = static_cast<const Offset*>(task_.offsets) + at;
    for (int64_t c = 0; c < channels_.size(); ++c) {
      add(totals_ + reach(start, offsets[c], c), dy + c);
    }
  }

  MLX_POOLING_INLINE static void add(A* total, const T* cotangent) {
    store<1>(total, sum<T>(load<1>(total), load<1>(cotangent)));
  }

  void store_totals(int64_t position) const {
    auto count = channels_.size();
    auto* dx = static_cast<T*>(task_.to) + channels_.begin;
    bool is_whole = count == task_.channels;
    auto runs = is_whole ? 1 : size_;
    auto length = size_ * count / runs;
    for (int64_t i = 0; i < runs; ++i) {
      auto* to = dx + (position + i) * task_.channels;
      auto* from = totals_ + i * length;
      for_each_lane<kVectorBytes / sizeof(A)>(
          length, [&]<int L>(Lanes<L>, int64_t c) MLX_POOLING_LAMBDA {
            store_result(
                to + c, stored<T, L>(load<L>(from + c)), kAheadBytes,
                task_.around_caches);
          });
    }
  }

  const MaxTask& task_;
  Range channels_;
  int64_t begin_; // inputs of this unit, as positions in their sample
  int64_t size_;
  A* totals_;
  int64_t soon_;     // elements to a window that is asked for ahead
  int64_t* reaches_; // from a window's start to its taps, in elements
};

} // namespace

void max_scatter_winners(const MaxTask& task, int64_t begin, int64_t end) {
  with_added_type(task.dtype, [&]<typename T>(T) {
    with_offset_type(task.offsets_dtype, [&]<typename Offset>(Offset) {
      HandOut<T, Offset> hand_out(task);
      for (auto u = begin; u < end; ++u) {
        hand_out.run(task.tiling->unit(u));
      }
    });
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
