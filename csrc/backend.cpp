#include "backend.h"

#include "mlx/backend/metal/metal.h"

namespace mlx_pooling {

bool has_kernels(mlx::core::Device device) {
  if (device == mlx::core::Device::cpu) {
    return true;
  }
#ifdef _METAL_
  return mlx::core::metal::is_available();
#else
  return false;
#endif
}

#ifndef _METAL_
const Backend& metal_backend() {
  throw std::logic_error("[mlx_pooling] This build has no Metal kernels.");
}
#endif

} // namespace mlx_pooling
