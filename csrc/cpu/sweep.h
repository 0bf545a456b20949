#pragma once

#include <variant>

#include "cpu/cache.h"
#include "cpu/ends.h"
#include "cpu/item_pass.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/row_blocks.h"
#include "cpu/row_pass.h"
#include "cpu/tiling.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Keeps the rows of a plane, from row `first` on, that an ItemPass emits: code
// that all types of elements with the same Op have in common.
template <typename Op>
auto kept_rows(
    typename Op::Cells to, int64_t first, int64_t width, int64_t taps) {
  return [=](int64_t h, auto cells) MLX_POOLING_LAMBDA {
    constexpr int kLanes = Op::kLanes;
    auto row = to + (h - first) * width;
    for (int64_t j = 0; j < width; j += kLanes) {
      auto cell = cells(Lanes<kLanes>{}, j);
      Op::template write<kLanes>(
          row + j, Op::template moved<kLanes>(cell, taps));
    }
  };
}

// Reduces windows one axis after the other, the innermost first: taps once
// joined to a row's winner or sum are not visited again by the windows above
// and below.
template <RowEnds Ends>
class Sweep {
 public:
  using Op = typename Ends::Op;
  using Cells = typename Op::Cells;

  Sweep(const Task& task, Ends& ends)
      : links_(task.links),
        channels_(task.channels),
        outgrows_(outgrows_caches(task.from_bytes())),
        ends_(ends) {}

  void run(const Tiling& tiling, int64_t index) {
    Scratch scratch;
    auto unit = tiling.unit(index);
    sample_ = unit.sample;
    block_ = unit.channels;
    ahead_ = ahead();
    auto band = [&](int axis) {
      return axis == tiling.band_axis() ? unit.band
                                        : Range{0, links_.axes[axis].size()};
    };
    row_ = band(2);
    const bool is_alone = tiling.axis() == 2;
    auto rows = rows_of(is_alone, scratch);
    auto width = row_.size() * block_.size();
    if (is_alone) {
      return std::visit([&](auto& row) { reduce_alone(row, scratch); }, rows);
    }
    ItemPass<Op> planes(
        links_.axes[1], band(1), links_.row_taps(), width, scratch);
    const bool is_plane = tiling.axis() == 1;
    const auto height = band(1);
    // One of rows and of planes, where each would be as much code again.
    auto store_item = [this, is_plane, height, width](
                          int64_t o, auto cells) MLX_POOLING_LAMBDA {
      const auto d = is_plane ? 0 : o;
      const auto lines = is_plane ? Range{o, o + 1} : height;
      for (auto h = lines.begin; h < lines.end; ++h) {
        const auto row = (h - lines.begin) * width;
        this->store(
            d, h, [=]<int L>(Lanes<L> lanes, int64_t j) MLX_POOLING_LAMBDA {
              return cells(lanes, row + j);
            });
      }
    };
    if (is_plane) {
      return reduce_plane(rows, planes, 0, store_item);
    }
    ItemPass<Op> volume(
        links_.axes[0], band(0), links_.plane_taps(), height.size() * width,
        scratch);
    for (auto d = volume.from().begin; d < volume.from().end; ++d) {
      if (volume.skips(d)) {
        continue;
      }
      reduce_plane(
          rows, planes, d,
          kept_rows<Op>(
              volume.slot(d), height.begin, width, volume.tap_base(d)));
      volume.push(d, store_item);
    }
  }

 private:
  using Rows = std::variant<RowPass<Op>, RowBlocks<Ends>>;
  static constexpr int kLanes = Op::kLanes;
  static constexpr int64_t kSize = sizeof(typename Ends::Stored);

  // Bytes to what is come to some time later: a row is read at once, and
  // nothing is asked for until the next. Positions of a block that is not all
  // channels lie apart.
  uintptr_t ahead() const {
    auto positions = positions_ahead(block_.size() * kSize);
    return block_.size() < channels_ ? positions * channels_ * kSize
                                     : 2 * kAheadBytes;
  }

  Rows rows_of(bool is_alone, Scratch& scratch) const {
    auto& width = links_.axes[2];
    if (RowBlocks<Ends>::suits(width, block_.size())) {
      // A loop of loads alone reads memory faster: such rows are copied first.
      // Not those of cells with taps, nor of few channels, of which that takes
      // longer than it saves; and an only row is asked for early instead.
      const bool in_place = is_alone || !outgrows_ || Op::kCellVectors > 1 ||
          block_.size() < RowBlocks<Ends>::kStrip;
      return RowBlocks<Ends>(width, row_, block_, channels_, in_place, scratch);
    }
    return RowPass<Op>(width, row_, block_.size(), scratch);
  }

  template <typename Emit>
  MLX_POOLING_INLINE void
  reduce_plane(Rows& rows, ItemPass<Op>& planes, int64_t d, const Emit& emit) {
    planes.restart();
    for (auto h = planes.from().begin; h < planes.from().end; ++h) {
      if (planes.skips(h)) {
        continue;
      }
      std::visit(
          [&](auto& row) {
            reduce(row, d, h, planes.slot(h), planes.tap_base(h));
          },
          rows);
      planes.push(h, emit);
    }
  }

  void
  reduce(RowPass<Op>& row, int64_t d, int64_t h, Cells out, int64_t tap_base) {
    load(row, d, h);
    row.reduce(out, tap_base);
  }

  void reduce(
      RowBlocks<Ends>& row, int64_t d, int64_t h, Cells out, int64_t tap_base) {
    // Positions further on are of the next row, or not of this strip.
    const auto ahead = links_.axes[2].other_size;
    row.template reduce<1>(
        ends_, row_at(d, h, tap_base), ahead,
        [out, first = row_.begin, pitch = block_.size()](
            int64_t o, int64_t c, const auto& cells) MLX_POOLING_LAMBDA {
          auto to = out + ((o - first) * pitch + c);
          for (const auto& cell : cells) {
            Op::template write<kLanes>(to, cell);
            to = to + kLanes;
          }
        });
  }

  // The only row there is.
  void reduce_alone(RowPass<Op>& row, Scratch& scratch) {
    auto out = Op::take(scratch, row_.size() * block_.size());
    reduce(row, 0, 0, out, 0);
    store(0, 0, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
      return Op::template read<L>(out + j);
    });
  }

  void reduce_alone(RowBlocks<Ends>& row, Scratch&) {
    auto ends = ends_;
    if (!are_lines(block_, kSize)) {
      ends.stay_in_caches();
    }
    const auto first =
        sample_ * links_.axes[2].size() * channels_ + block_.begin;
    // A strip is gone through faster than memory gives it: asking early helps.
    const auto ahead = positions_ahead(RowBlocks<Ends>::kStrip * kSize);
    row.template reduce<2>(
        ends_, row_at(0, 0, 0), 8 * ahead,
        [=, channels = channels_](int64_t o, int64_t c, const auto& cells)
            MLX_POOLING_LAMBDA {
              auto common = ends.writing(0, 0, o);
              auto at = first + o * channels + c;
              for (const auto& cell : cells) {
                ends.template write_cell<kLanes>(
                    at, 2 * ahead * channels * kSize, cell, common);
                at += kLanes;
              }
            });
  }

  LinkedRow row_at(int64_t d, int64_t h, int64_t tap_base) const {
    auto& [depth, height, width] = links_.axes;
    auto row = (sample_ * depth.other_size + d) * height.other_size + h;
    return {row * width.other_size, tap_base, d, h};
  }

  void load(RowPass<Op>& rows, int64_t d, int64_t h) {
    auto row = row_at(d, h, 0);
    for_each_run(
        rows.from(), ends_.read_alike(),
        [&](int64_t w, int64_t j, int64_t count) MLX_POOLING_LAMBDA {
          ends_.read(
              row.spatial + w, block_.begin, count, ahead_,
              ends_.reading(row, w), rows.row() + j);
        });
  }

  template <typename Read>
  MLX_POOLING_INLINE void store(int64_t d, int64_t h, Read cells) {
    auto& [depth, height, width] = links_.axes;
    auto row = (sample_ * depth.size() + d) * height.size() + h;
    for_each_run(
        row_, ends_.written_alike(),
        [&](int64_t w, int64_t j, int64_t count) MLX_POOLING_LAMBDA {
          auto common = ends_.writing(d, h, w);
          auto first = (row * width.size() + w) * channels_ + block_.begin;
          for_each_lane<kLanes>(
              count, [&]<int L>(Lanes<L> lanes, int64_t c) MLX_POOLING_LAMBDA {
                ends_.template write_cell<L>(
                    first + c, ahead_, cells(lanes, j + c), common);
              });
        });
  }

  // Calls visit(w, j, count) for each run of elements, from position w on:
  // those that are contiguous and alike, or of one position. j counts them in
  // this block.
  template <typename Visit>
  MLX_POOLING_INLINE void for_each_run(Range of, Range alike, Visit visit) {
    bool is_whole = block_.size() == channels_;
    for (auto w = of.begin; w < of.end;) {
      auto end =
          is_whole && alike.contains(w) ? std::min(alike.end, of.end) : w + 1;
      visit(w, (w - of.begin) * block_.size(), (end - w) * block_.size());
      w = end;
    }
  }

  const Links& links_;
  int64_t channels_;
  bool outgrows_;
  Ends& ends_;
  int64_t sample_;
  Range block_; // of channels
  uintptr_t ahead_;
  Range row_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
