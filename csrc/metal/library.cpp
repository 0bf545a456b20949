#include "metal/library.h"

#include <dlfcn.h>

#include <iterator>
#include <string_view>
#include <unordered_set>

#include "ready.h"

namespace mlx_pooling::metal {

namespace fs = std::filesystem;

namespace {

fs::path extension() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&extension), &info);
  return info.dli_fname ? info.dli_fname : "";
}

} // namespace

std::optional<fs::path> ready_library() {
  auto path = extension().replace_filename(kReadyLibrary);
  std::error_code ignored;
  return fs::exists(path, ignored) ? std::optional(path) : std::nullopt;
}

bool is_ready(const Launch& launch) {
  static const std::unordered_set<std::string_view> kernels(
      std::begin(kReadyKernels), std::end(kReadyKernels));
  return kernels.contains(launch.kernel);
}

} // namespace mlx_pooling::metal
