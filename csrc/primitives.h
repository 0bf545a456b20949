#pragma once

#include "backend.h"
#include "mlx/primitives.h"
#include "window.h"

// The primitives of pooling, and how they differentiate into each other. These
// are linear, but for the first:
//
//   MaxPool        x -> y (, offsets, extent)
//   MaxPoolScatter (offsets, extent, dy) -> dx       adjoint of Gather
//   MaxPoolGather  (offsets, extent, t) -> t at the maxima
//   AvgPool        x -> y (, extent)
//   AvgPoolGrad    (extent, dy) -> dx                adjoint of AvgPool
//
//   MaxUnpool      (indices, x) -> x at its places in a plane
//   MaxUnpoolGrad  (indices, dy) -> dx               adjoint of MaxUnpool
//
// And two are not:
//
//   QuantizedAvgPool  x -> y                         constant between its steps
//   LpPool            x -> y (, extent)              by AvgPool and AvgPoolGrad
//
// `offsets` holds the window-local tap of each maximum. `extent` has no
// elements: its shape, that of x without channels, tells the adjoint how large
// x was, also when a shapeless compile changes it, without keeping x alive.
// Arrays are (*batch, *spatial, C) with any number of batch axes, so that
// vmap only adds one.

namespace mlx_pooling {

class Pooling : public mlx::core::Primitive {
 public:
  Pooling(mlx::core::Stream stream, Window window)
      : Primitive(stream), window_(std::move(window)) {}

  using array = mlx::core::array;
  using Arrays = std::vector<mlx::core::array>;
  using Shapes = std::vector<mlx::core::Shape>;
  using Axes = std::vector<int>;

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override;
  void eval_gpu(const Arrays& inputs, Arrays& outputs) override;

  void eval(const Backend& on, const Arrays& inputs, Arrays& outputs);

  const Window& window() const {
    return window_;
  }

  bool is_equivalent(const Primitive& other) const override {
    return window_ == static_cast<const Pooling&>(other).window_;
  }

 protected:
  // Computes allocated, non-empty outputs.
  virtual void
  run(const Backend& on, const Arrays& inputs, Arrays& outputs) = 0;

  // Which input the first output equals where each window is the one element in
  // its own place; none if they may differ.
  virtual std::optional<int> identity_input() const {
    return std::nullopt;
  }

  Window window_;
};

#define MLX_POOLING_DECLARE(NAME)                                              \
  const char* name() const override {                                          \
    return #NAME;                                                              \
  }                                                                            \
  void run(const Backend& on, const Arrays& inputs, Arrays& outputs) override; \
  Arrays jvp(                                                                  \
      const Arrays& primals, const Arrays& tangents, const Axes& argnums)      \
      override;                                                                \
  Arrays vjp(                                                                  \
      const Arrays& primals, const Arrays& cotangents, const Axes& argnums,    \
      const Arrays& outputs) override;                                         \
  std::pair<Arrays, Axes> vmap(const Arrays& inputs, const Axes& axes)         \
      override;                                                                \
  Shapes output_shapes(const Arrays& inputs) override;

class MaxPool : public Pooling {
 public:
  MaxPool(mlx::core::Stream stream, Window window, bool traced)
      : Pooling(stream, std::move(window)), traced_(traced) {}

  MLX_POOLING_DECLARE(MaxPool)
  bool is_equivalent(const Primitive& other) const override;

 protected:
  std::optional<int> identity_input() const override {
    return traced_ ? std::nullopt : std::optional(0); // offsets are computed
  }

 private:
  bool traced_; // also writes offsets and extent
};

class MaxPoolScatter : public Pooling {
 public:
  using Pooling::Pooling;
  MLX_POOLING_DECLARE(MaxPoolScatter)

 protected:
  std::optional<int> identity_input() const override {
    return 2;
  }
};

// Without t it gathers from the grid of flat spatial positions: its output is
// the indices of the maxima.
class MaxPoolGather : public Pooling {
 public:
  using Pooling::Pooling;
  MLX_POOLING_DECLARE(MaxPoolGather)
};

// Where several elements have the same index, it is the first that counts;
// indices outside the plane are passed over.
class MaxUnpool : public Pooling {
 public:
  using Pooling::Pooling;
  MLX_POOLING_DECLARE(MaxUnpool)
};

class MaxUnpoolGrad : public Pooling {
 public:
  using Pooling::Pooling;
  MLX_POOLING_DECLARE(MaxUnpoolGrad)
};

class AvgPool : public Pooling {
 public:
  AvgPool(
      mlx::core::Stream stream,
      Window window,
      mlx::core::Dtype dtype,
      bool traced)
      : Pooling(stream, std::move(window)), dtype_(dtype), traced_(traced) {}

  MLX_POOLING_DECLARE(AvgPool)
  bool is_equivalent(const Primitive& other) const override;

 protected:
  std::optional<int> identity_input() const override {
    return 0;
  }

  mlx::core::Dtype dtype_; // of the output: sums of integers keep theirs
  bool traced_;            // also writes extent

 private:
  // Whether x is averaged as what MLX would convert it to, and differentiated
  // as that.
  bool converts(const array& x) const {
    return x.dtype() != dtype_;
  }
};

class AvgPoolGrad : public Pooling {
 public:
  using Pooling::Pooling;
  MLX_POOLING_DECLARE(AvgPoolGrad)

 protected:
  std::optional<int> identity_input() const override {
    return 1;
  }
};

class QuantizedAvgPool : public Pooling {
 public:
  QuantizedAvgPool(mlx::core::Stream stream, Window window, int32_t zero_point)
      : Pooling(stream, std::move(window)), zero_point_(zero_point) {}

  MLX_POOLING_DECLARE(QuantizedAvgPool)
  bool is_equivalent(const Primitive& other) const override;

 private:
  int32_t zero_point_;
};

class LpPool : public AvgPool {
 public:
  LpPool(
      mlx::core::Stream stream,
      Window window,
      mlx::core::Dtype dtype,
      int exponent,
      bool traced)
      : AvgPool(stream, std::move(window), dtype, traced),
        exponent_(exponent) {}

  MLX_POOLING_DECLARE(LpPool)
  bool is_equivalent(const Primitive& other) const override;

 protected:
  std::optional<int> identity_input() const override {
    return std::nullopt; // by a power and a root
  }

 private:
  // As LpPool scales sums of powers.
  array whole_sums(const array& averages);
  // Of the exponent that derivatives have.
  array lower_power(const array& base);

  int exponent_;
};

#undef MLX_POOLING_DECLARE

// The graph nodes. Inputs may have any strides; arguments are not checked.

struct MaxPoolOutputs {
  mlx::core::array y;
  mlx::core::array offsets;
  mlx::core::array extent;
};

mlx::core::array
max_pool_node(const mlx::core::array& x, const Window& w, mlx::core::Stream s);

MaxPoolOutputs max_pool_traced_node(
    const mlx::core::array& x, const Window& w, mlx::core::Stream s);

// Flat spatial positions of the maxima, uint32.
mlx::core::array max_pool_indices_node(
    const mlx::core::array& offsets,
    const mlx::core::array& extent,
    const Window& w,
    mlx::core::Stream s);

// x at the positions that `indices`, uint32, have in the window's plane.
mlx::core::array max_unpool_node(
    const mlx::core::array& x,
    const mlx::core::array& indices,
    const Window& w,
    mlx::core::Stream s);

// Averages in `dtype`: that of x, or float32 for integers, whose own makes them
// sums.
mlx::core::array avg_pool_node(
    const mlx::core::array& x,
    mlx::core::Dtype dtype,
    const Window& w,
    mlx::core::Stream s);

mlx::core::array quantized_avg_pool_node(
    const mlx::core::array& x,
    int32_t zero_point,
    const Window& w,
    mlx::core::Stream s);

// Of x in float32 or float64, and exponent 2 or 3.
mlx::core::array lp_pool_node(
    const mlx::core::array& x,
    int exponent,
    const Window& w,
    mlx::core::Stream s);

} // namespace mlx_pooling
