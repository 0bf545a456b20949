#include "cpu/kernels.h"
#include "cpu/row_by_row.h"
#include "cpu/sweep.h"
#include "cpu/walk.h"

namespace mlx_pooling::cpu::MLX_POOLING_ISA {

namespace {

// Sums of windows are divided when they are stored; of cotangents each is
// divided when it is loaded, unless all by the same.
template <typename T>
class AvgEnds {
 public:
  using Op = Sum<T>;
  using Value = typename Op::Value;
  // Integers are only summed.
  static constexpr bool kDivided = std::is_floating_point_v<Value>;

  explicit AvgEnds(const AvgTask& task)
      : task_(task), uniform_(divisor_at<Value>(task.divisor, 0, 0, 0)) {}

  bool reads_by_position() const {
    return kDivided && task_.adjoint && !task_.divisor.is_uniform;
  }
  bool writes_by_position() const {
    return kDivided && !task_.adjoint && !task_.divisor.is_uniform;
  }

  void read(
      int64_t position,
      int64_t at,
      int64_t count,
      uintptr_t ahead,
      Value* values) const {
    auto* x =
        static_cast<const T*>(task_.from) + position * task_.channels + at;
    auto divisor = reads_by_position() ? divisor_of(position) : Value{1};
    for_each_lane<Op::kLanes>(
        count, [&]<int L>(Lanes<L>, int64_t j) MLX_POOLING_LAMBDA {
          fetch_ahead<L>(x + j, ahead);
          auto value = load<L>(x + j);
          store<L>(values + j, divisor == 1 ? value : value / divisor);
        });
  }

  // Of a window, whose sum is divided when it is stored. The next comes from
  // another position, where hardware expects no row of vectors.
  template <int L>
  MLX_POOLING_INLINE auto tap(int64_t at, int64_t) const {
    auto* x = static_cast<const T*>(task_.from) + at;
    fetch_ahead<L>(x, kBlockBytes);
    return Op::template of<L>(load<L>(x));
  }

  template <typename Cells>
  MLX_POOLING_INLINE void write(
      int64_t position, int64_t at, int64_t count, uintptr_t ahead, Cells cells)
      const {
    auto* y = static_cast<T*>(task_.to) + position * task_.channels + at;
    auto divisor = writes_by_position() ? divisor_of(position)
        : reads_by_position()           ? Value{1}
                                        : uniform_;
    for_each_lane<Op::kLanes>(
        count, [&]<int L>(Lanes<L> lanes, int64_t j) MLX_POOLING_LAMBDA {
          auto total = cells(lanes, j).value;
          claim_ahead<L>(y + j, ahead);
          store<L>(y + j, kDivided ? total / divisor : total);
        });
  }

 private:
  Value divisor_of(int64_t position) const {
    auto& factors = task_.divisor.factors;
    int64_t height = factors[1].size();
    int64_t width = factors[2].size();
    int64_t depth = factors[0].size();
    auto row = position / width;
    return divisor_at<Value>(
        task_.divisor, row / height % depth, row % height, position % width);
  }

  static constexpr uintptr_t kBlockBytes = 8 * kVectorBytes;

  const AvgTask& task_;
  Value uniform_;
};

} // namespace

void avg_sweep(const AvgTask& task, int64_t begin, int64_t end) {
  with_summed_type(task.dtype, [&]<typename T>(T) {
    AvgEnds<T> ends(task);
    Sweep<Sum<T>, AvgEnds<T>> sweep(task.links, task.channels, ends);
    for (auto unit = begin; unit < end; ++unit) {
      sweep.run(*task.tiling, unit);
    }
  });
}

void avg_row_by_row(const AvgTask& task, int64_t begin, int64_t end) {
  with_summed_type(task.dtype, [&]<typename T>(T) {
    AvgEnds<T> ends(task);
    RowByRow<Sum<T>, AvgEnds<T>>(task.links, task.channels, ends)
        .run(*task.tiling, begin, end);
  });
}

} // namespace mlx_pooling::cpu::MLX_POOLING_ISA
