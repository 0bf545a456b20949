# The Metal backend over an encoder that runs shaders on the CPU, or on an NVIDIA
# GPU; host_backend.cpp takes the place of the CPU backend and can still hand over
# to it.
set(host "${CMAKE_CURRENT_LIST_DIR}")
target_sources(
  _ext PRIVATE csrc/metal/backend.cpp "${host}/host_backend.cpp"
  "${host}/host_encoder.cpp" "${host}/simdgroup.cpp" "${host}/../cuda/cuda.cpp")
target_include_directories(_ext PRIVATE "${host}" "${host}/../cuda")
set_source_files_properties(
  csrc/cpu/backend.cpp PROPERTIES COMPILE_DEFINITIONS
  cpu_backend=real_cpu_backend)
target_compile_definitions(
  _ext PRIVATE MLX_POOLING_HOST_SHADERS
  "MLX_POOLING_HOST_INCLUDE=\"${host}\""
  "MLX_POOLING_CUDA_INCLUDE=\"${host}/../cuda\""
  # Nothing may go past the backend.
  MLX_POOLING_SMALL_WORK=0)
target_link_libraries(_ext PRIVATE ${CMAKE_DL_LIBS})
