#include "cpu/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpu/adaptive.h"

namespace mlx_pooling::cpu {

namespace {

// Whether all windows have the same share of the divisor: long axes are not
// gone through to see.
bool divides_alike(const Geometry& geometry, int axis) {
  auto& along = geometry.axes[axis];
  if (geometry.divisor_override != 0 || along.out == 1) {
    return true;
  }
  if (along.adaptive) {
    return false;
  }
  return geometry.count_include_pad
      ? geometry.divisor(axis, 0) == geometry.divisor(axis, along.out - 1)
      : !along.leaves_input();
}

std::vector<double> window_sizes(const Axis& adaptive) {
  std::vector<double> sizes;
  sizes.reserve(adaptive.out);
  auto add = [&](int64_t, int64_t, int64_t size) {
    sizes.push_back(static_cast<double>(size));
  };
  for_each_adaptive_window(adaptive.in, adaptive.out, add);
  return sizes;
}

} // namespace

Divisors::Divisors(const Geometry& geometry, bool of_whole_windows)
    : is_uniform(true), of_all(1) {
  for (int axis = 0; axis < kMaxSpatialAxes; ++axis) {
    is_uniform = is_uniform && divides_alike(geometry, axis);
  }
  for (int axis = 0; axis < kMaxSpatialAxes; ++axis) {
    auto& along = geometry.axes[axis];
    auto unit = static_cast<double>(of_whole_windows ? along.kernel : 1);
    auto factor = [&](int64_t o) {
      return static_cast<double>(geometry.divisor(axis, o)) / unit;
    };
    if (is_uniform) {
      of_all *= factor(0);
    } else if (along.adaptive) {
      factors[axis] = Periodic(window_sizes(along));
    } else {
      auto same = [](double one, int64_t) { return one; };
      factors[axis] =
          Periodic<double>(along.out, along.uncut(), 1, factor, same);
    }
  }
}

#if defined(MLX_POOLING_X86_64_LEVELS)

namespace {

// Whether the CPU has the levels x86-64-v3 and v4, which the build compiles
// kernels for, by what those without do not have: GCC 11 knows no levels.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("fma");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// MLX_POOLING_ISA asks for less than the CPU has, to test the other kernels.
const Kernels& choose() {
  const char* wanted = std::getenv("MLX_POOLING_ISA");
  auto wants = [&](const char* isa) {
    return wanted != nullptr && std::strcmp(wanted, isa) == 0;
  };
  bool has_wish = wants("avx512") || wants("avx2") || wants("baseline");
  auto may_use = [&](const char* isa) { return !has_wish || wants(isa); };
  if (has_avx512() && may_use("avx512")) {
    return avx512::kernels;
  }
  if (has_avx2() && may_use("avx2")) {
    return avx2::kernels;
  }
  return baseline::kernels;
}

} // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

#else

const Kernels& kernels() {
  return baseline::kernels;
}

#endif

int64_t lanes_side_by_side(int64_t bytes) {
  constexpr int64_t kLeast = 4; // narrower elements are widened
  return kernels().bytes_side_by_side() / std::max(bytes, kLeast);
}

} // namespace mlx_pooling::cpu
