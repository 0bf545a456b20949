# Makes metal/ one self-contained string: shaders compiled at run time have no
# include path.

set(shader_files
    params.h
    common.h
    windows.h
    covers.h
    divisor.h
    shares.h
    average.h
    best.h
    sweep.h
    runs.h
    lanes.h
    max_pool.metal
    max_pool_flat.metal
    max_pool_lanes.metal
    max_sweep.metal
    max_pool_scatter.metal
    max_pool_scatter_flat.metal
    max_scatter_sweep.metal
    max_pool_gather.metal
    unpool.metal
    avg_pool.metal
    avg_pool_flat.metal
    avg_pool_lanes.metal
    avg_sweep.metal
    avg_pool_grad.metal
    avg_pool_grad_flat.metal
    avg_grad_sweep.metal)

function(flatten_shaders variable)
  set(source "")
  foreach(name IN LISTS shader_files)
    set(path "${CMAKE_SOURCE_DIR}/metal/${name}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    string(REGEX REPLACE "#include \"[^\n]*\n" "" text "${text}")
    string(REPLACE "#pragma once\n" "" text "${text}")
    string(APPEND source "${text}")
  endforeach()
  set(${variable} "${source}" PARENT_SCOPE)
endfunction()

# Writes that string in a C++ header.
function(embed_shaders header)
  flatten_shaders(source)
  # Names the compiled library: MLX keeps libraries by name, process-wide.
  string(SHA256 hash "${source}")
  file(CONFIGURE OUTPUT "${header}" @ONLY CONTENT
"#pragma once

namespace mlx_pooling::metal {

inline constexpr char kShaderHash[] = \"@hash@\";

inline constexpr char kShaderSource[] = R\"metal(@source@)metal\";

} // namespace mlx_pooling::metal
")
endfunction()
