#pragma once

#include <vector>

#include "metal/launch.h"
#include "mlx/array.h"
#include "mlx/stream.h"

namespace mlx_pooling::metal {

// An array bound to the buffer index of its place in a list; `data` is null
// where the kernel's constants say that it is not used.
struct Binding {
  const mlx::core::array* data;
  Access access = Access::read;
};

// An array without values yet, kept until the launches queued before the next
// evaluation are done.
mlx::core::array
temporary(mlx::core::Dtype dtype, mlx::core::Shape shape, mlx::core::Stream);

// Queues a launch on the stream's GPU.
void encode(
    const Launch& launch,
    const std::vector<Binding>& bindings,
    mlx::core::Stream stream);

} // namespace mlx_pooling::metal
