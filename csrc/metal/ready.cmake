# The instantiations that an ahead-of-time library holds: those of ordinary
# layers. All others are compiled when first used, as all are without a library.
#
# Ordinary are windows that a thread can index with 32 bits (`index`): of 16- and
# 32-bit floats forward and backward, of images and quantized numbers forward.
# Windows have at most 255 taps, or 65535 where they are taken apart or shared.
# For these, every vector width is here and every tile and strip and number of
# lanes that select.cpp has.
#
# Few channels have kernels of their own for each number of channels and each
# window along W: of these, images of one channel or three are here, halved.

set(ready_kernels "")

# Lists a kernel with every combination of its template arguments, for each of
# which there is a choice: a|b|c.
function(ready kernel)
  set(instantiations "${kernel}<")
  set(separator "")
  foreach(choice IN LISTS ARGN)
    string(REPLACE "|" ";" arguments "${choice}")
    set(longer "")
    foreach(begun IN LISTS instantiations)
      foreach(argument IN LISTS arguments)
        list(APPEND longer "${begun}${separator}${argument}")
      endforeach()
    endforeach()
    set(instantiations "${longer}")
    set(separator ", ")
  endforeach()
  list(TRANSFORM instantiations APPEND ">")
  set(ready_kernels ${ready_kernels} ${instantiations} PARENT_SCOPE)
endfunction()

# Rows and columns that a thread computes, of vectors up to 4 and of wider ones.
set(tiles "1, 1|1, 4|4, 1|4, 2")
set(wide_tiles "1, 1|1, 4|4, 1|2, 2")
# Lengths of strips of windows, and widths of vectors with those of strips of
# inputs, which have at most 32 elements: in wider vectors they would not be worth
# a pass.
set(lengths "1|2|4|8|16|32")
set(cover_strips "1, 1|1, 2|1, 4|1, 8|1, 16|1, 32|2, 1|2, 2|2, 4|2, 8|2, 16")
string(APPEND cover_strips "|4, 1|4, 2|4, 4|4, 8")

# Lanes that share a window.
set(lanes "2|4|8|16|32")
# Vectors of images, their channels, a tile that they fill, and a window 2/2.
set(images "4, 1, 1, 4, 2, 2, 1|4, 3, 1, 4, 2, 2, 1")
set(wide_images "${images}|8, 1, 1, 8, 2, 2, 1|8, 3, 1, 8, 2, 2, 1")

set(floats float|half|bfloat)
set(halves half|bfloat)
set(bytes uchar|char)
set(taps uchar|ushort)

#     kernel            from       to         offsets  index  width, tile
ready(max_pool          ${floats}             uchar    int    1|2|4 ${tiles})
ready(max_pool          ${halves}             uchar    int    8     ${wide_tiles})
ready(max_pool          ${bytes}              uchar    int    1|2|4 ${tiles})
ready(max_pool          ${bytes}              uchar    int    8|16  ${wide_tiles})
ready(max_pool_flat     float                 uchar    int    ${images})
ready(max_pool_flat     ${halves}             uchar    int    ${wide_images})
ready(max_pool_flat     ${bytes}              uchar    int    ${wide_images})
ready(max_pool_flat     ${bytes}              uchar    int    "16, 1, 1, 16, 2, 2, 1")
ready(max_pool_lanes    ${floats}             ${taps}  int    1|2|4 ${lanes})
ready(max_pool_lanes    ${halves}             ${taps}  int    8     ${lanes})
ready(max_sweep         ${floats}             ${taps}  int    1|2|4 ${lengths})
ready(max_sweep         ${halves}             ${taps}  int    8     ${lengths})
ready(max_pool_scatter  ${floats}             uchar    int    1|2|4 1|4)
ready(max_pool_scatter  ${halves}             uchar    int    8     1|4)
ready(max_scatter_sweep ${floats}  float      uchar    int    ${cover_strips})
ready(max_scatter_sweep float      ${halves}  uchar    int    ${cover_strips})
ready(max_scatter_sweep ${floats}  float      ushort   int    ${cover_strips})
ready(max_scatter_sweep float      ${halves}  ushort   int    ${cover_strips})
ready(max_scatter_sweep half       half       uchar    int    ${cover_strips})
ready(max_scatter_sweep bfloat     bfloat     uchar    int    ${cover_strips})
ready(max_pool_gather   ushort|uint           ${taps}  int)
ready(unpool_clear                                     int)
ready(unpool_claim                                     int)
ready(unpool_place      ushort|uint                    int)
ready(unpool_take       ushort|uint                    int)
ready(avg_pool          float      float               int    1|2|4 ${tiles})
ready(avg_pool          uchar      float               int    1|2|4 ${tiles})
ready(avg_pool          half       half                int    1|2|4 ${tiles})
ready(avg_pool          half       half                int    8     ${wide_tiles})
ready(avg_pool          bfloat     bfloat              int    1|2|4 ${tiles})
ready(avg_pool          bfloat     bfloat              int    8     ${wide_tiles})
ready(avg_pool          uchar      uchar               int    1|2|4 ${tiles})
ready(avg_pool          uchar      uchar               int    8     ${wide_tiles})
ready(avg_pool          char       char                int    1|2|4 ${tiles})
ready(avg_pool          char       char                int    8     ${wide_tiles})
ready(avg_pool_flat     float      float               int    ${images})
ready(avg_pool_flat     uchar      float               int    ${images})
ready(avg_pool_flat     half       half                int    ${wide_images})
ready(avg_pool_flat     bfloat     bfloat              int    ${wide_images})
ready(avg_pool_flat     uchar      uchar               int    ${wide_images})
ready(avg_pool_flat     char       char                int    ${wide_images})
ready(avg_pool_lanes    ${floats}  float               int    1|2|4 ${lanes})
ready(avg_pool_lanes    uchar      float               int    1|2|4 ${lanes})
ready(avg_pool_lanes    float      ${halves}           int    1|2|4 ${lanes})
ready(avg_pool_lanes    half       half                int    1|2|4|8 ${lanes})
ready(avg_pool_lanes    bfloat     bfloat              int    1|2|4|8 ${lanes})
ready(avg_pool_lanes    ${bytes}   int                 int    1|2|4 ${lanes})
ready(avg_pool_lanes    int        ${bytes}            int    1|2|4 ${lanes})
ready(avg_pool_lanes    uchar      uchar               int    1|2|4|8 ${lanes})
ready(avg_pool_lanes    char       char                int    1|2|4|8 ${lanes})
ready(avg_sweep         ${floats}  float               int    1|2|4 ${lengths})
ready(avg_sweep         uchar      float               int    1|2|4 ${lengths})
ready(avg_sweep         float      ${halves}           int    1|2|4 ${lengths})
ready(avg_sweep         half       half                int    1|2|4|8 ${lengths})
ready(avg_sweep         bfloat     bfloat              int    1|2|4|8 ${lengths})
ready(avg_sweep         ${bytes}   int                 int    1|2|4 ${lengths})
ready(avg_sweep         int        ${bytes}            int    1|2|4 ${lengths})
ready(avg_sweep         int        int                 int    1|2|4 ${lengths})
ready(avg_sweep         uchar      uchar               int    1|2|4|8 ${lengths})
ready(avg_sweep         char       char                int    1|2|4|8 ${lengths})
ready(avg_pool_grad     ${floats}                      int    1|2|4 1|4)
ready(avg_pool_grad     ${halves}                      int    8     1|4)
ready(avg_grad_sweep    ${floats}  float               int    ${cover_strips})
ready(avg_grad_sweep    float      ${halves}           int    ${cover_strips})
ready(avg_grad_sweep    half       half                int    ${cover_strips})
ready(avg_grad_sweep    bfloat     bfloat              int    ${cover_strips})

# Writes the list for the host, ready.h, and the library's source, ready.metal.
# `library` becomes its name, which carries a hash of that source: the library of
# another version is never taken for this one.
function(write_ready folder library)
  flatten_shaders(source)
  set(quoted "")
  foreach(kernel IN LISTS ready_kernels)
    string(APPEND quoted "    \"${kernel}\",\n")
    # As Launch::name does.
    string(REGEX REPLACE "[<, ]+" "_" name "${kernel}")
    string(REPLACE ">" "" name "${name}")
    string(APPEND source "MLX_POOLING_INSTANTIATE(\"${name}\", ${kernel})\n")
  endforeach()
  string(SHA256 hash "${source}")
  string(SUBSTRING "${hash}" 0 16 hash)
  set(name "mlx_pooling_${hash}")
  file(CONFIGURE OUTPUT "${folder}/ready.metal" @ONLY CONTENT "@source@")
  file(CONFIGURE OUTPUT "${folder}/ready.h" @ONLY CONTENT
"#pragma once

namespace mlx_pooling::metal {

inline constexpr char kReadyLibrary[] = \"@name@.metallib\";

inline constexpr const char* kReadyKernels[] = {
@quoted@};

} // namespace mlx_pooling::metal
")
  set(${library} "${name}" PARENT_SCOPE)
endfunction()
