#pragma once

#include <filesystem>
#include <optional>

#include "metal/launch.h"

namespace mlx_pooling::metal {

// The library of instantiations that were compiled ahead of time (ready.cmake),
// if one of these very shaders lies beside the extension.
std::optional<std::filesystem::path> ready_library();

// Whether such a library has the launch's instantiation.
bool is_ready(const Launch& launch);

} // namespace mlx_pooling::metal
