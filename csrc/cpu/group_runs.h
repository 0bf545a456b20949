#pragma once

#include <algorithm>
#include <limits>

#include "cpu/kernels.h"
#include "cpu/walk.h"

// Which windows are reduced, or spread, side by side, and in what order.

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Which windows a group is made of: some that are not cut off or a single one,
// those from a row's first on, or those up to its last.
enum class Part { inner, first, last };

// Groups of `windows` each, the first of which is where the walk is, from
// number i on.
struct GroupRun {
  const Walk& walk;
  int64_t i;
  int64_t windows;
  int64_t groups; // of a row, if there are several
  int64_t next;   // positions of the input from one group to the next
  int64_t apart;  // and windows
  Part part;
  int64_t rows = 1;
  int64_t next_row = 0; // positions of the input

  bool is_one_group() const {
    return groups * rows == 1;
  }
};

// Rows of windows that none of the input's ends cut off: what they read lies as
// far apart each.
class EvenRows {
 public:
  explicit EvenRows(const Links& links) {
    auto& [depth, height, width] = links.axes;
    even_ = height.in_step();
    next_ = height.of.step() * width.other_size;
    auto tiled = height.of.step() * height.size();
    bool is_plane = depth.size() == 1 && depth.other_size == 1;
    goes_on_ =
        is_plane && even_.size() == height.size() && tiled == height.other_size;
  }

  // How many there are from the walk's on.
  int64_t from(const Walk& walk) const {
    if (goes_on_) { // in the next sample
      return std::numeric_limits<int64_t>::max();
    }
    return even_.contains(walk.h()) ? even_.end - walk.h() : 1;
  }

  int64_t next() const {
    return next_;
  }

 private:
  Range even_;
  int64_t next_;
  bool goes_on_;
};

// Calls visit(run) for the runs that make up [begin, end).
template <typename Visit>
class Runs {
 public:
  Runs(const Task& task, int64_t begin, int64_t end, const Visit& visit)
      : side_(task.side_by_side),
        row_(task.links.axes[2].size()),
        even_rows_(task.links),
        begin_(begin),
        end_(end),
        i_(begin),
        walk_(task.links, begin),
        visit_(visit) {}

  void visit_all() {
    while (i_ < end_) {
      auto rows = walk_.w() == 0 ? (end_ - i_) / row_ : 0;
      rows = std::min(rows, even_rows_.from(walk_));
      if (rows > 0 && side_.rows > 0) {
        visit_whole(rows);
      } else if (rows > 0 && side_.with_cut) {
        visit_in_parts(rows);
      } else {
        visit_part_of_row();
      }
    }
  }

 private:
  // Enough to share what a run costs, but not too many to reduce again for a
  // NaN.
  static constexpr int64_t kMost = 64;
  // Groups of a row that are enough to be reduced together.
  static constexpr int64_t kLongRow = 4;

  void visit_whole(int64_t rows) {
    auto at_once = std::min(side_.rows, rows);
    auto groups = std::min(rows / at_once, kMost);
    auto windows = at_once * row_;
    auto next = at_once * even_rows_.next();
    visit(0, windows, groups, next, windows, Part::first);
    go_on(groups * at_once);
  }

  // Of several rows, if they are short: where those have few groups, the first
  // ones, then the second ones and so on.
  void visit_in_parts(int64_t rows) {
    const auto windows = side_.windows;
    bool has_first = side_.uncut.begin > 0 || side_.uncut.end < windows;
    const auto from = has_first ? windows : 0;
    const auto inner = std::max<int64_t>(0, (side_.uncut.end - from) / windows);
    const auto done = from + inner * windows;
    rows = std::min(rows, side_.together);
    auto visit_at = [&](int64_t w, Part part) {
      auto apart = rows > 1 ? row_ : windows;
      visit(w, windows, rows, even_rows_.next(), apart, part);
    };
    if (has_first) {
      visit_at(0, Part::first);
    }
    if (rows == 1 || inner >= kLongRow) {
      visit_inner(from, inner, rows);
    } else {
      for (auto w = from; w < done; w += windows) {
        visit_at(w, Part::inner);
      }
    }
    bool has_last =
        side_.uncut.end < row_ || side_.uncut.begin > row_ - windows;
    if (has_last && done < row_ - windows) {
      visit_at(side_.uncut.end - windows, Part::inner);
    }
    if (done < row_) {
      visit_at(row_ - windows, has_last ? Part::last : Part::inner);
    }
    walk_.skip(-walk_.w());
    go_on(rows);
  }

  // So many groups of each row. Of several rows all at once, as what lies
  // beyond a row's last group is overwritten by the next row's first.
  void visit_inner(int64_t w, int64_t count, int64_t rows) {
    const auto windows = side_.windows;
    const auto most = rows > 1 ? count : kMost;
    for (int64_t groups; count > 0; count -= groups, w += groups * windows) {
      groups = std::min(count, most);
      auto next = windows * side_.stride;
      visit(w, windows, groups, next, windows, Part::inner, rows);
    }
  }

  // A run from the row's window w on.
  void visit(
      int64_t w,
      int64_t windows,
      int64_t groups,
      int64_t next,
      int64_t apart,
      Part part,
      int64_t rows = 1) {
    walk_.skip(w - walk_.w());
    visit_(
        GroupRun{
            walk_, i_ + w, windows, groups, next, apart, part, rows,
            even_rows_.next()});
  }

  // From a row's first window to that of another.
  void go_on(int64_t rows) {
    i_ += rows * row_;
    if (i_ < end_) {
      walk_.skip_rows(rows);
    }
  }

  void visit_part_of_row() {
    int64_t windows = 1;
    int64_t groups = 1;
    if (side_.uncut.contains(walk_.w())) {
      auto left = std::min(side_.uncut.end - walk_.w(), end_ - i_);
      windows = std::min(side_.windows, left);
      groups = std::clamp<int64_t>(left / windows, 1, kMost);
      // Full groups are faster, even if they repeat what the last one did.
      auto missing = side_.windows - windows;
      if (walk_.w() - missing >= side_.uncut.begin && i_ - missing >= begin_) {
        walk_.skip(-missing);
        i_ -= missing;
        windows += missing;
      }
    }
    visit_(
        GroupRun{
            walk_, i_, windows, groups, windows * side_.stride, windows,
            Part::inner});
    i_ += groups * windows;
    walk_.skip(groups * windows);
  }

  const SideBySide side_;
  const int64_t row_; // windows
  const EvenRows even_rows_;
  const int64_t begin_;
  const int64_t end_;
  int64_t i_;
  Walk walk_;
  const Visit& visit_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
