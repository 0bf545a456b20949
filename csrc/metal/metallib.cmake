# Compiles what ready.cmake lists into a library beside the extension.
if(NOT APPLE)
  message(FATAL_ERROR "MLX_POOLING_METALLIB needs macOS: Metal is nowhere else")
endif()
execute_process(
  COMMAND xcrun -sdk macosx metal --version
  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message(FATAL_ERROR "MLX_POOLING_METALLIB needs Xcode and its Metal compiler:"
                      " xcodebuild -downloadComponent MetalToolchain")
endif()

mlx_build_metallib(
  TARGET mlx_pooling_metallib
  TITLE "${ready_library}"
  SOURCES "${CMAKE_CURRENT_BINARY_DIR}/generated/ready.metal"
  OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}"
  # What the shaders are written for, whatever the extension is built for.
  DEPLOYMENT_TARGET 14.0
  COMPILE_OPTIONS -std=metal3.1)
add_dependencies(_ext mlx_pooling_metallib)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${ready_library}.metallib"
        DESTINATION mlx_pooling)
