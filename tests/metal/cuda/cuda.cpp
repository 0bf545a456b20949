// Shaders on an NVIDIA GPU. Its libraries are loaded when they are asked for:
// nothing of CUDA is needed to build this.

#include "cuda.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>

namespace mlx_pooling::metal {

namespace {

using Handle = void*;
using Address = unsigned long long;

class Library {
 public:
  explicit Library(std::vector<std::string> names) {
    for (auto& name : names) {
      if ((handle_ = dlopen(name.c_str(), RTLD_NOW)) != nullptr) {
        return;
      }
    }
    throw std::runtime_error("[cuda] There is no " + names.front() + ".");
  }

  // Calls a function that returns 0 unless it fails.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    if (int status = function<Arguments...>(name)(arguments...); status != 0) {
      throw std::runtime_error(
          "[cuda] " + std::string(name) + " returned " +
          std::to_string(status) + ".");
    }
  }

  template <typename... Arguments>
  auto function(const char* name) -> int (*)(Arguments...) {
    auto* found = dlsym(handle_, name);
    if (found == nullptr) {
      throw std::runtime_error("[cuda] There is no " + std::string(name) + ".");
    }
    return reinterpret_cast<int (*)(Arguments...)>(found);
  }

 private:
  void* handle_ = nullptr;
};

Library& driver() {
  static Library library({"libcuda.so.1"});
  return library;
}

Library& compiler() {
  static Library library({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"});
  return library;
}

constexpr int kMajor = 75; // of the compute capability, as device attributes
constexpr int kMinor = 76;

int gpu() {
  static const int first = [] {
    int device;
    driver().call("cuInit", 0u);
    driver().call("cuDeviceGet", &device, 0);
    return device;
  }();
  return first;
}

std::string architecture() {
  int major;
  int minor;
  driver().call("cuDeviceGetAttribute", &major, kMajor, gpu());
  driver().call("cuDeviceGetAttribute", &minor, kMinor, gpu());
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

// Makes the GPU that of the calling thread: MLX has threads of its own.
void use_gpu() {
  static const Handle context = [] {
    Handle retained;
    driver().call("cuDevicePrimaryCtxRetain", &retained, gpu());
    return retained;
  }();
  driver().call("cuCtxSetCurrent", context);
}

const char* kEntry = R"(
struct Buffer {
  void* data;
  template <typename T>
  operator T*() const {
    return static_cast<T*>(data);
  }
};
extern "C" __global__ void __launch_bounds__(GROUP_X * GROUP_Y * GROUP_Z) entry(
    void* b0, void* b1, void* b2, void* b3,
    const __grid_constant__ PoolParams b4,
    uint grid_x, uint grid_y, uint grid_z) {
  const uint groups_x = (grid_x - 1) / GROUP_X + 1;
  const uint groups_y = (grid_y - 1) / GROUP_Y + 1;
  const uint row = blockIdx.x / groups_x;
  const uint plane = row / groups_y;
  const uint thread_number = threadIdx.x;
  uint3 at;
  at.x = (blockIdx.x - row * groups_x) * GROUP_X + thread_number % GROUP_X;
  at.y = (row - plane * groups_y) * GROUP_Y + thread_number / GROUP_X % GROUP_Y;
  at.z = plane * GROUP_Z + thread_number / (GROUP_X * GROUP_Y);
  if (at.x < grid_x && at.y < grid_y && at.z < grid_z) {
    KERNEL(ARGUMENTS);
  }
}
)";

std::string
replaced(std::string text, const std::string& old, const std::string& by) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos;
       at += by.size()) {
    text.replace(at, old.size(), by);
  }
  return text;
}

// Of Metal.
std::string without_attributes(std::string text) {
  for (size_t at = 0; (at = text.find("[[", at)) != std::string::npos;) {
    text.erase(at, text.find("]]", at) + 2 - at);
  }
  return text;
}

// The signature's buffers, in order, and what else it takes.
std::string arguments_of(const std::string& signature) {
  const std::string buffer = "[[buffer(";
  std::string arguments;
  for (size_t at = 0; (at = signature.find(buffer, at)) != std::string::npos;) {
    at += buffer.size();
    auto index = std::atoi(signature.c_str() + at);
    auto name = "b" + std::to_string(index);
    arguments += index == kParamsIndex ? name + ", " : "Buffer{" + name + "}, ";
  }
  bool has_lanes =
      signature.find("[[thread_index_in_simdgroup]]") != std::string::npos;
  return arguments + (has_lanes ? "at, thread_number % 32" : "at");
}

// "constant int name [[function_constant(1)]];" with its value, others as they
// are.
std::string definition(const Launch& launch, const std::string& declaration) {
  const std::string attribute = " [[function_constant(";
  auto line = "constexpr" + declaration.substr(declaration.find(' '));
  auto at = line.find(attribute);
  if (at == std::string::npos) {
    return line;
  }
  auto index = std::atoi(line.c_str() + at + attribute.size());
  return line.substr(0, at) + " = " + std::to_string(launch.constants[index]) +
      ";";
}

std::string standard_library() {
  std::ifstream file(MLX_POOLING_CUDA_INCLUDE "/metal_stdlib");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string compiled(const std::string& source) {
  const auto library = standard_library();
  const char* headers[] = {library.c_str()};
  const char* names[] = {"metal_stdlib"};
  const auto target = "--gpu-architecture=" + architecture();
  // Kernels round as the CPU's: no fused products, subnormals are zeros.
  const char* options[] = {
      target.c_str(), "--std=c++17", "--device-as-default-execution-space",
      "--fmad=false", "--ftz=true",  "-w"};
  Handle program;
  compiler().call(
      "nvrtcCreateProgram", &program, source.c_str(), "shaders.cu", 1, headers,
      names);
  auto compile =
      compiler().function<Handle, int, const char**>("nvrtcCompileProgram");
  bool fails = compile(program, std::size(options), options) != 0;
  auto result = [&](const std::string& kind) {
    size_t size;
    compiler().call(("nvrtcGet" + kind + "Size").c_str(), program, &size);
    std::string text(size, '\0');
    compiler().call(("nvrtcGet" + kind).c_str(), program, text.data());
    return text;
  };
  auto text = result(fails ? "ProgramLog" : "CUBIN");
  compiler().call("nvrtcDestroyProgram", &program);
  return fails ? throw std::runtime_error(text) : text;
}

Handle kernel_of(const Launch& launch, const std::string& source) {
  static std::map<std::string, Handle> loaded;
  use_gpu();
  auto text = cuda_source(launch, source);
  auto& kernel = loaded[text];
  if (kernel == nullptr) {
    Handle module;
    driver().call(
        "cuModuleLoadData", &module,
        static_cast<const void*>(compiled(text).data()));
    driver().call("cuModuleGetFunction", &kernel, module, "entry");
  }
  return kernel;
}

// Memory of the GPU that grows to the most that was asked for.
Address memory(size_t bytes) {
  static Address first = 0;
  static size_t size = 0;
  if (bytes > size) {
    if (first != 0) {
      driver().call("cuMemFree_v2", first);
    }
    driver().call("cuMemAlloc_v2", &first, bytes);
    size = bytes;
  }
  return first;
}

void read(void* to, Address from, size_t bytes) {
  if (bytes > 0) {
    driver().call("cuMemcpyDtoH_v2", to, from, bytes);
  }
}

void write(Address to, const void* from, size_t bytes) {
  if (bytes > 0) {
    driver().call("cuMemcpyHtoD_v2", to, from, bytes);
  }
}

constexpr size_t kUnit = 256;
constexpr unsigned char kGuard = 0xa7;

// Where buffers begin, each between two units that nobody may write.
std::vector<size_t>
places_of(const std::vector<HostBuffer>& buffers, size_t& end) {
  std::vector<size_t> places;
  end = kUnit;
  for (auto& buffer : buffers) {
    places.push_back(end + buffer.offset);
    auto last = end + buffer.offset + buffer.bytes;
    end = (last + kUnit - 1) / kUnit * kUnit + kUnit;
  }
  return places;
}

bool is_untouched(Address first, size_t bytes) {
  std::vector<unsigned char> guard(bytes);
  read(guard.data(), first, bytes);
  return std::all_of(
      guard.begin(), guard.end(), [](auto byte) { return byte == kGuard; });
}

double milliseconds_of(const std::function<void()>& run) {
  static Handle events[2] = {};
  for (auto& event : events) {
    if (event == nullptr) {
      driver().call("cuEventCreate", &event, 0u);
    }
  }
  const Handle stream = nullptr;
  driver().call("cuEventRecord", events[0], stream);
  run();
  driver().call("cuEventRecord", events[1], stream);
  driver().call("cuEventSynchronize", events[1]);
  float milliseconds;
  driver().call("cuEventElapsedTime", &milliseconds, events[0], events[1]);
  return milliseconds;
}

// The fastest of so many, a few at a time: one alone is as long as starting it.
double fastest(int repeats, const std::function<void()>& run) {
  constexpr int kAtATime = 5;
  double least = 0;
  for (int i = 0; i < repeats; ++i) {
    auto each = milliseconds_of([&] {
                  for (int j = 0; j < kAtATime; ++j) {
                    run();
                  }
                }) /
        kAtATime;
    least = i == 0 ? each : std::min(least, each);
  }
  return least;
}

} // namespace

std::string cuda_source(const Launch& launch, const std::string& source) {
  std::string text;
  for (size_t first = 0; first < source.size();) {
    auto last = std::min(source.find('\n', first), source.size());
    auto line = source.substr(first, last - first);
    bool is_constant = line.starts_with("constant ");
    text += (is_constant ? definition(launch, line) : line) + "\n";
    first = last + 1;
  }
  auto name = launch.kernel.substr(0, launch.kernel.find('<'));
  auto signature = text.substr(text.find("[[kernel]] void " + name + "("));
  signature = signature.substr(0, signature.find(") {"));
  text += kEntry;
  const char* axes[] = {"GROUP_X", "GROUP_Y", "GROUP_Z"};
  for (int i = 0; i < 3; ++i) {
    text = replaced(text, axes[i], std::to_string(launch.threadgroup[i]));
  }
  text = replaced(
      text, "KERNEL(ARGUMENTS)",
      launch.kernel + "(" + arguments_of(signature) + ")");
  return "#define __METAL_VERSION__ 310\n" + without_attributes(text);
}

CudaRun run_on_cuda(
    const Launch& launch,
    const PoolParams& params,
    const std::string& source,
    const std::vector<HostBuffer>& buffers,
    int repeats) {
  auto kernel = kernel_of(launch, source);
  size_t bytes;
  auto places = places_of(buffers, bytes);
  auto first = memory(bytes);
  driver().call("cuMemsetD8_v2", first, kGuard, bytes);
  Address addresses[kParamsIndex] = {};
  for (size_t i = 0; i < buffers.size(); ++i) {
    write(first + places[i], buffers[i].data, buffers[i].bytes);
    addresses[buffers[i].index] = first + places[i] - buffers[i].bytes_ahead;
  }

  auto grid = launch.grid;
  uint32_t groups = 1;
  uint32_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    groups *= (grid[i] + launch.threadgroup[i] - 1) / launch.threadgroup[i];
    threads *= launch.threadgroup[i];
  }
  auto passed = params;
  void* arguments[] = {&addresses[0], &addresses[1], &addresses[2],
                       &addresses[3], &passed,       &grid[0],
                       &grid[1],      &grid[2]};
  auto run = [&] {
    if (groups > 0) {
      driver().call(
          "cuLaunchKernel", kernel, groups, 1u, 1u, threads, 1u, 1u, 0u,
          Handle{}, arguments, static_cast<void**>(nullptr));
    }
  };
  run();
  driver().call("cuCtxSynchronize");
  CudaRun result{"", fastest(repeats, run)};

  size_t last = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].is_result) {
      read(buffers[i].data, first + places[i], buffers[i].bytes);
    }
    if (!is_untouched(first + last, places[i] - last)) {
      result.error = "write outside every buffer";
    }
    last = places[i] + buffers[i].bytes;
  }
  if (!is_untouched(first + last, bytes - last)) {
    result.error = "write outside every buffer";
  }
  return result;
}

void require_cuda() {
  use_gpu();
  compiler();
}

std::string cuda_device() {
  char name[256];
  driver().call("cuDeviceGetName", name, static_cast<int>(sizeof(name)), gpu());
  return name;
}

double cuda_copy_bandwidth() {
  constexpr size_t kBytes = size_t{1} << 30;
  use_gpu();
  auto first = memory(2 * kBytes);
  auto copy = [&] {
    driver().call(
        "cuMemcpyDtoDAsync_v2", first, first + kBytes, kBytes, Handle{});
  };
  copy();
  return 2e3 * kBytes / fastest(5, copy);
}

} // namespace mlx_pooling::metal
