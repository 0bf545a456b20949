#include <stdexcept>

#include "backend.h"

// In the place of this folder's backend and encoder, where MLX has no Metal.

namespace mlx_pooling {

bool has_kernels(mlx::core::Device device) {
  return device == mlx::core::Device::cpu;
}

// Unreachable: without kernels, operations are composed.
const Backend& metal_backend() {
  throw std::logic_error("[mlx_pooling] This build has no Metal kernels.");
}

} // namespace mlx_pooling
