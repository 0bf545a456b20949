#include "cpu/kernels.h"

namespace mlx_pooling::cpu {

Divisor::Divisor(const Geometry& geometry) {
  for (int axis = 0; axis < kMaxSpatialAxes; ++axis) {
    auto& of = factors[axis];
    of.reserve(geometry.axes[axis].out);
    for (int64_t o = 0; o < geometry.axes[axis].out; ++o) {
      of.push_back(geometry.divisor(axis, o));
    }
  }
}

const Kernels& kernels() {
#if defined(__x86_64__)
  // x86-64-v4 and v3 are what the build compiles these two for.
  static const Kernels& best = __builtin_cpu_supports("x86-64-v4")
      ? avx512::kernels
      : __builtin_cpu_supports("x86-64-v3") ? avx2::kernels
                                            : baseline::kernels;
  return best;
#else
  return baseline::kernels;
#endif
}

} // namespace mlx_pooling::cpu
