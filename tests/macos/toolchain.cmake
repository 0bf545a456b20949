# Builds for macOS arm64 on Linux with zig. Wants ZIG (the zig executable), PYTHON
# (to run link.py) and FRAMEWORKS (a folder of stub frameworks to link with).
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ZIG PYTHON FRAMEWORKS)

set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(CMAKE_OSX_SYSROOT /) # none: zig brings its own
set(CMAKE_OSX_DEPLOYMENT_TARGET 14.0)

# Nothing runs, and to optimise would take most of the time. Without -O0, zig would
# compile its libc++ once more; with it, sanitize what it compiles.
set(CMAKE_CXX_COMPILER
    "${ZIG}" c++ --target=aarch64-macos.14.0 -O0 -g0 -fno-sanitize=undefined)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/include")
set(CMAKE_CXX_ARCHIVE_CREATE "\"${ZIG}\" ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${ZIG}\" ranlib <TARGET>")
set(CMAKE_CXX_LINKER_LAUNCHER "${PYTHON}" "${CMAKE_CURRENT_LIST_DIR}/link.py")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "\"-F${FRAMEWORKS}\"")

# Installing would otherwise need Apple's install_name_tool.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
