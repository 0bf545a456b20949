#pragma once

#include "averaging.h"
#include "geometry.h"
#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/stream.h"

namespace mlx_pooling {

// One device's kernels. Arrays are row-contiguous, outputs are allocated and
// have elements; complex64 is averaged as pairs of float32 channels, which
// `geometry` already counts.
class Backend {
 public:
  using array = mlx::core::array;
  using Stream = mlx::core::Stream;

  virtual ~Backend() = default;

  virtual void allocate(array& output) const {
    output.set_data(mlx::core::allocator::malloc(output.nbytes()));
  }

  // `offsets` may be null.
  virtual void max_pool(
      const Geometry& geometry,
      const array& x,
      array& y,
      array* offsets,
      Stream stream) const = 0;

  virtual void max_pool_scatter(
      const Geometry& geometry,
      const array& offsets,
      const array& dy,
      array& dx,
      Stream stream) const = 0;

  // Where `t` is null, gathers flat spatial positions.
  virtual void max_pool_gather(
      const Geometry& geometry,
      const array& offsets,
      const array* t,
      array& y,
      Stream stream) const = 0;

  // `geometry` has the plane as input and `indices` as output.
  virtual void max_unpool(
      const Geometry& geometry,
      const array& indices,
      const array& x,
      array& y,
      Stream stream) const = 0;

  virtual void max_unpool_grad(
      const Geometry& geometry,
      const array& indices,
      const array& dy,
      array& dx,
      Stream stream) const = 0;

  virtual void avg_pool(
      const Geometry& geometry,
      const array& x,
      Averaging averaging,
      array& y,
      Stream stream) const = 0;

  virtual void avg_pool_grad(
      const Geometry& geometry,
      const array& dy,
      array& dx,
      Stream stream) const = 0;
};

const Backend& cpu_backend();
// Computes before it returns, not in the stream's thread.
const Backend& cpu_backend_at_once();
const Backend& metal_backend();

// Whether this build and machine have kernels for the device.
bool has_kernels(mlx::core::Device device);

} // namespace mlx_pooling
