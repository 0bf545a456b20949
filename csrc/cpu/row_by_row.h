#pragma once

#include <algorithm>
#include <type_traits>

#include "cpu/ends.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/nan_watch.h"
#include "cpu/pass.h"
#include "cpu/scratch.h"
#include "cpu/tiling.h"
#include "cpu/unrolled.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

// Reduces each window by parts of its rows, for large windows that share
// little. A sum is that of groups of parts, rather than of one long chain.
template <CellEnds Ends>
class RowByRow {
 public:
  RowByRow(const Task& task, Ends& ends)
      : links_(task.links),
        from_(static_cast<const typename Ends::Stored*>(task.from)),
        channels_(task.channels),
        is_large_(task.from_bytes() > kLarge),
        ends_(ends) {}

  // Some channels of one output.
  void run(const Tiling::Unit& unit) {
    const Walk walk(links_, unit.sample);
    auto channels = kOrderMatters ? channels_ : unit.channels.size();
    at_once_ = channels <= kMostAtOnce * kLanes;
    in_turn_ = is_large_ && !at_once_;
    lead_ = lead(unit.channels);
    Scratch scratch;
    auto slots = slots_of(unit.channels);
    const Totals totals{
        Op::take(scratch, slots), Op::take(scratch, kOrderMatters ? slots : 0),
        Op::take(scratch, kOrderMatters && in_turn_ ? slots : 0)};
    reduce(walk, unit.channels, totals);
    const auto ends = ends_; // where no store can change it
    const auto at = unit.sample * channels_ + unit.channels.begin;
    auto common = ends.writing(walk.d(), walk.h(), walk.w());
    for_each<kFewVectors>(
        unit.channels,
        [&]<int L, int U>(
            Lanes<L>, Vectors<U>, int64_t c, int64_t slot) MLX_POOLING_LAMBDA {
          for (int u = 0; u < U; ++u) {
            ends.template write_cell<L>(
                at + c + u * L, kAheadBytes,
                Op::template read<L>(totals.of_all + (slot + u * L)), common);
          }
        });
  }

 private:
  using Op = typename Ends::Op;
  static constexpr int kLanes = Op::kLanes;
  static constexpr int kMostVectors =
      kRegisters >= 8 * Op::kCellVectors ? 8 : 4;
  // A whole position of up to so many vectors is held in registers. There is
  // code for every fourth number of them, of which the last ones may overlap.
  static constexpr int kMostAtOnce =
      kVectorBytes == 64 && Op::kCellVectors == 1 ? kRegisters : kMostVectors;
  static constexpr int kMostOverlapping = 4;
  // Of the taps of a vector that is read alone, that do not wait for each
  // other. Cells with taps would have to tell which of them came first.
  static constexpr int kMostChains = Op::kCellVectors == 1 ? 4 : 1;
  template <int N>
  struct Chains {};
  // Vectors of which most lie in two cache lines, unless there is a lead().
  static constexpr int64_t kVector = kLanes * sizeof(typename Ends::Stored);
  static constexpr bool kMayLead = kVector == kVectorBytes && kVector >= 32;
  // Of what is not read at once.
  static constexpr int kFewVectors = kVectorBytes >= 32 ? 2 : 4;
  static constexpr int64_t kPage = 4096; // bytes
  // Of more bytes, one tap is read after the other, as memory is read fastest.
  // Shared caches hardly lose by it, and nobody knows what they hold.
  static constexpr int64_t kLarge = 1 << 20;
  // Of a group.
  static constexpr int64_t kMostParts = 64;
  // Sums depend on which taps are joined first, which must not depend on a
  // unit's channels.
  static constexpr bool kOrderMatters =
      std::is_same_v<Op, Sum<typename Op::Value>>;

  // What taps were joined to.
  struct Totals {
    typename Op::Cells of_all;
    typename Op::Cells of_group;
    typename Op::Cells of_part;
  };

  int64_t position_bytes() const {
    return channels_ * static_cast<int64_t>(sizeof(typename Ends::Stored));
  }

  // Cells of vectors that overlap, each of which has its own.
  static int64_t slots_of(Range channels) {
    return channels.size() + kMostOverlapping * kLanes;
  }

  // Channels before the first vector that lies in one cache line, if those of
  // every position have as many: arrays that MLX made do not begin with a line.
  // That takes up to two visits more, of so many as hardly to notice.
  int64_t lead(Range channels) const {
    bool pays = kMayLead && channels.size() >= 24 * kLanes && !at_once_;
    if (!pays || position_bytes() % kVector != 0) {
      return 0;
    }
    auto begin = reinterpret_cast<uintptr_t>(from_ + channels.begin);
    auto size = static_cast<int64_t>(sizeof(*from_));
    return (kVector - static_cast<int64_t>(begin % kVector)) % kVector / size;
  }

  // Of a part: of many channels, as many as hardware follows side by side, of
  // few so many that their sum is still exact enough.
  int64_t most_positions() const {
    return at_once_ ? kLongestChain : 16;
  }

  // Bytes to what is asked for ahead: of a large input, as many positions as
  // make two pages. Of others, what follows in a position of more than a page,
  // else so far that hardware, which loses track at the end of a page, does not
  // ask for it itself: where vectors lie in one cache line, that of the
  // position after the next.
  uintptr_t ahead() const {
    auto position = position_bytes();
    if (is_large_) {
      return ceil_div(2 * kPage, position) * position;
    }
    if (position > kPage) {
      return kPage / 8;
    }
    return lead_ > 0 ? 2 * position : kPage;
  }

  void reduce(const Walk& walk, Range channels, const Totals& totals) {
    if (walk.unlinked()) {
      return for_each_lane<kLanes>(
          slots_of(channels), [&]<int L>(Lanes<L>, int64_t slot) {
            Op::template write<L>(
                totals.of_all + slot, Op::template nothing<L>());
          });
    }
    auto& width = links_.axes[2];
    const Link along = width.of[walk.w()];
    const auto most = most_positions();
    auto to = totals.of_all;
    bool is_group = false; // not the first
    int64_t parts = 0;
    walk.for_each_linked_row([&](const LinkedRow& row) {
      for (int64_t k = 0; k < along.count; k += most, ++parts) {
        if (kOrderMatters && parts == kMostParts) {
          if (is_group) {
            join(channels, totals.of_all, totals.of_group);
          }
          to = totals.of_group;
          is_group = true;
          parts = 0;
        }
        const Link part{
            along.first + k * width.step, std::min(along.count - k, most),
            along.tap + k};
        auto first = (walk.plane() + row.spatial + part.first) * channels_;
        join_part(row, part, first, channels, to, totals.of_part, parts == 0);
      }
    });
    if (is_group) {
      join(channels, totals.of_all, totals.of_group);
    }
  }

  void join_part(
      const LinkedRow& row,
      const Link& part,
      int64_t first,
      Range channels,
      typename Op::Cells to,
      typename Op::Cells of_part,
      bool begins) {
    if (!in_turn_) {
      join_side_by_side(row, part, first, channels, to, begins);
    } else if (kOrderMatters && !begins) {
      join_in_turn(row, part, first, channels, of_part, true);
      join(channels, to, of_part);
    } else {
      join_in_turn(row, part, first, channels, to, begins);
    }
  }

  void join_in_turn(
      const LinkedRow& row,
      const Link& part,
      int64_t first,
      Range channels,
      typename Op::Cells to,
      bool begins) {
    auto step = links_.axes[2].step;
    const auto ends = ends_; // where no store can change it
    auto common = ends.reading(row, part.first);
    auto ahead = this->ahead();
    NanWatch<typename Op::Value, kLanes> watch;
    auto join = [&]<bool kBegins>(
                    std::bool_constant<kBegins>, int64_t k) MLX_POOLING_LAMBDA {
      auto at = first + k * step * channels_ + channels.begin;
      for_each<kFewVectors>(
          channels,
          [&]<int L, int U>(Lanes<L>, Vectors<U>, int64_t c, int64_t slot)
              MLX_POOLING_LAMBDA {
                fetch_lines_ahead<U * L * sizeof(typename Ends::Stored)>(
                    from_ + at + c, ahead);
                NanWatch<typename Op::Value, L> rest;
                for (int u = 0; u < U; ++u) {
                  auto from = at + c + u * L;
                  auto cell = ends.template read_cell<L>(from, common);
                  if constexpr (Op::kWatched && L == kLanes) {
                    watch.see(cell.value, u);
                  } else if constexpr (Op::kWatched) {
                    rest.see(cell.value, u);
                  }
                  cell = Op::template moved<L>(cell, part.tap + k);
                  if constexpr (!kBegins) {
                    cell = Op::template joined<L>(
                        Op::template read<L>(to + (slot + u * L)), cell);
                  }
                  Op::template write<L>(to + (slot + u * L), cell);
                }
                if constexpr (Op::kWatched) {
                  if constexpr (L < kLanes) {
                    ends_.see_nan(rest.saw_nan());
                  }
                }
              });
    };
    int64_t k = 0;
    if (begins) {
      join(std::true_type{}, k++);
    }
    for (; k < part.count; ++k) {
      join(std::false_type{}, k);
    }
    if constexpr (Op::kWatched) {
      ends_.see_nan(watch.saw_nan());
    }
  }

  void join(
      Range channels, typename Op::Cells total, typename Op::Cells part) const {
    for_each<kFewVectors>(
        channels,
        [&]<int L, int U>(Lanes<L>, Vectors<U>, int64_t, int64_t slot)
            MLX_POOLING_LAMBDA {
              for (int u = 0; u < U; ++u) {
                auto of = slot + u * L;
                auto cell = Op::template joined<L>(
                    Op::template read<L>(total + of),
                    Op::template read<L>(part + of));
                Op::template write<L>(total + of, cell);
              }
            });
  }

  void join_side_by_side(
      const LinkedRow& row,
      const Link& part,
      int64_t first,
      Range channels,
      typename Op::Cells total,
      bool begins) {
    auto step = links_.axes[2].step * channels_;
    const auto ends = ends_; // where no store can change it
    auto common = ends.reading(row, part.first);
    auto ahead = this->ahead();
    // Of more channels it would depend on the tiling which are alone.
    const bool in_chains = channels_ <= kMostVectors * kLanes;
    for_each<kMostVectors>(
        channels,
        [&]<int L, int U>(Lanes<L>, Vectors<U>, int64_t c, int64_t slot)
            MLX_POOLING_LAMBDA {
              auto join = [&]<int kChains>(Chains<kChains>) MLX_POOLING_LAMBDA {
                NanWatch<typename Op::Value, L, kChains * U> watch;
                auto cell = [&](int64_t k, int n) MLX_POOLING_LAMBDA {
                  auto at = first + channels.begin + k * step +
                      place<L, U>(channels, c, n % U);
                  ends.template fetch_cell_ahead<L>(at, ahead);
                  auto cell = ends.template read_cell<L>(at, common);
                  if constexpr (Op::kWatched) {
                    watch.see(cell.value, n);
                  }
                  return Op::template moved<L>(cell, part.tap + k);
                };
                auto to = total + slot;
                join_taps<L, U, kChains>(part.count, cell, to, begins);
                if constexpr (Op::kWatched) {
                  ends_.see_nan(watch.saw_nan());
                }
              };
              if constexpr (U == 1 && kMostChains > 1) {
                if (in_chains) {
                  return join(Chains<kMostChains>{});
                }
              }
              join(Chains<1>{});
            });
  }

  // Of U vectors, cell(k, k % chains * U + u) of tap k and vector u.
  template <int L, int U, int kChains, typename CellOf>
  MLX_POOLING_INLINE static void
  join_taps(int64_t count, CellOf cell, typename Op::Cells to, bool begins) {
    typename Op::template Cell<L> cells[kChains * U];
    auto join = [&](int to, const auto& from) MLX_POOLING_LAMBDA {
      cells[to] = Op::template joined<L>(cells[to], from);
    };
    unrolled<kChains * U>([&]<int N>() MLX_POOLING_LAMBDA {
      if (N / U < count) {
        cells[N] = cell(N / U, N);
      }
    });
    int64_t k = kChains;
    for (; k + kChains <= count; k += kChains) {
      unrolled<kChains * U>(
          [&]<int N>() MLX_POOLING_LAMBDA { join(N, cell(k + N / U, N)); });
    }
    for (; k < count; ++k) {
      unrolled<U>([&]<int N>() MLX_POOLING_LAMBDA { join(N, cell(k, N)); });
    }
    unrolled<(kChains - 1) * U>([&]<int N>() MLX_POOLING_LAMBDA {
      if (1 + N / U < count) {
        join(N % U, cells[U + N]);
      }
    });
    unrolled<U>([&]<int N>() MLX_POOLING_LAMBDA {
      if (!begins) {
        auto total = Op::template read<L>(to + N * L);
        cells[N] = Op::template joined<L>(total, cells[N]);
      }
      Op::template write<L>(to + N * L, cells[N]);
    });
  }

  // The first channel of vector u of U, as for_each() visits them.
  template <int L, int U>
  MLX_POOLING_INLINE static int64_t place(Range channels, int64_t c, int u) {
    auto at = c + u * L;
    return U > kMostVectors && u >= U - kMostOverlapping
        ? std::min(at, channels.size() - L)
        : at;
  }

  // Visits a whole position as U vectors, or as few less as hold it; if those
  // are no more than kMostVectors, returns false instead.
  template <int U, typename Visit>
  MLX_POOLING_INLINE static bool
  visit_at_once([[maybe_unused]] Range channels, [[maybe_unused]] Visit visit) {
    if constexpr (U <= kMostVectors) {
      return false;
    } else {
      constexpr int kLess = U - kMostOverlapping;
      if (channels.size() <= kLess * kLanes) {
        return visit_at_once<kLess>(channels, visit);
      }
      visit(Lanes<kLanes>{}, Vectors<U>{}, 0, 0);
      return true;
    }
  }

  // Calls visit(Lanes<L>{}, Vectors<U>{}, c, slot) so that vectors of L
  // elements, from place<L, U>(channels, c, u) on, cover all channels. Each has
  // totals of its own, from slot + u * L on: channels that two of them share do
  // not count twice. Those of a slot are the same whatever kMost is. What is
  // not read at once is read in small pieces: hardware looks ahead for each
  // instruction, whose loads should lie close to each other.
  template <int kMost, typename Visit>
  MLX_POOLING_INLINE void for_each(Range channels, Visit visit) const {
    int64_t c = 0;
    int64_t slot = 0;
    auto in_blocks_of = [&]<int U>(Vectors<U>) MLX_POOLING_LAMBDA {
      for (; c + U * kLanes <= channels.size();
           c += U * kLanes, slot += U * kLanes) {
        visit(Lanes<kLanes>{}, Vectors<U>{}, c, slot);
      }
    };
    if (at_once_) {
      if constexpr (kMost == kMostVectors) {
        if (visit_at_once<kMostAtOnce>(channels, visit)) {
          return;
        }
      }
      if constexpr (kMost >= 8) {
        in_blocks_of(Vectors<8>{});
      }
      if constexpr (kMost >= 4 && kFewVectors < 4) {
        in_blocks_of(Vectors<4>{});
      }
    }
    if (kMayLead && lead_ > 0) {
      visit(Lanes<kLanes>{}, Vectors<1>{}, 0, 0);
      c = lead_;
      slot = kLanes;
    }
    in_blocks_of(Vectors<kFewVectors>{});
    in_blocks_of(Vectors<1>{});
    if (c < channels.size() && channels.size() >= kLanes) {
      return visit(
          Lanes<kLanes>{}, Vectors<1>{}, channels.size() - kLanes, slot);
    }
    if constexpr (kLanes > 4) {
      for (; c + kLanes / 4 <= channels.size();
           c += kLanes / 4, slot += kLanes / 4) {
        visit(Lanes<kLanes / 4>{}, Vectors<1>{}, c, slot);
      }
    }
    for (; c < channels.size(); ++c, ++slot) {
      visit(Lanes<1>{}, Vectors<1>{}, c, slot);
    }
  }

  const Links& links_;
  const typename Ends::Stored* from_;
  int64_t channels_;
  bool is_large_;
  // Of the unit.
  bool at_once_ = false;
  bool in_turn_ = false;
  int64_t lead_ = 0;
  Ends& ends_;
};

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
