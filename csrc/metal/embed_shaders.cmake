# Writes metal/ as one self-contained string, in a C++ header: shaders compiled
# at run time have no include path.

set(shader_files
    params.h
    common.h
    windows.h
    covers.h
    divisor.h
    shares.h
    best.h
    sweep.h
    max_pool.metal
    max_sweep.metal
    max_pool_scatter.metal
    max_scatter_sweep.metal
    max_pool_gather.metal
    unpool.metal
    avg_pool.metal
    avg_sweep.metal
    avg_pool_grad.metal
    avg_grad_sweep.metal)

function(embed_shaders header)
  set(source "")
  foreach(name IN LISTS shader_files)
    set(path "${CMAKE_SOURCE_DIR}/metal/${name}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
    file(READ "${path}" text)
    string(REGEX REPLACE "#include \"[^\n]*\n" "" text "${text}")
    string(REPLACE "#pragma once\n" "" text "${text}")
    string(APPEND source "${text}")
  endforeach()
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
