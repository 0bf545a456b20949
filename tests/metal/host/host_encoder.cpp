// An encoder that runs launches on the CPU: it compiles the shader source that
// a launch carries, binds exactly-sized buffers and calls the kernel for every
// thread, watching each access to memory.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <sstream>

#include "cuda.h"
#include "host_encoder.h"
#include "metal/encoder.h"
#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "reports.h"
#include "simdgroup.h"

namespace mlx_pooling::metal {

namespace mx = mlx::core;
namespace fs = std::filesystem;

namespace {

struct Position {
  uint32_t x, y, z;
};

// A compiled launch.
struct Shader {
  bool has_lanes; // knows its simdgroup
  void (*set_report)(Report);
  void (*set_exchange)(Exchange);
  void (*set_constants)(const int32_t*);
  bool (*is_constant)(const void*);
  void (*run)(void* const* buffers, Position at, uint32_t lane);
};

std::string env(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

std::vector<std::smatch> matches(const std::string& text, const char* pattern) {
  std::regex regex(pattern);
  return {
      std::sregex_iterator(text.begin(), text.end(), regex),
      std::sregex_iterator()};
}

// One report per access of the source: no scalar replacement splits a vector.
// Of thread sanitizer only its instrumentation is used. Compiling takes longer
// than running, and less where a function's only call is inlined.
const char* kWatched =
    "-Og -finline-functions-called-once -fno-tree-sra -fsanitize=thread";

bool watches() {
  return std::getenv("MLX_POOLING_SHADER_FLAGS") == nullptr;
}

const char* kBuffer = R"(
#define UNWATCHED __attribute__((no_sanitize("thread")))
struct Buffer {
  void* data;
  template <typename T>
  UNWATCHED operator T*() const {
    return static_cast<T*>(data);
  }
  UNWATCHED operator PoolParams&() const {
    return *static_cast<PoolParams*>(data);
  }
};
)";

const char* kLaneAttribute = "[[thread_index_in_simdgroup]]";

std::string signature_of(const Launch& launch, const std::string& source) {
  auto name = launch.kernel.substr(0, launch.kernel.find('<'));
  auto signature = source.substr(source.find("[[kernel]] void " + name + "("));
  return signature.substr(0, signature.find(") {"));
}

// Only those lines of the source: regular expressions take long for all.
std::string declared_constants(const std::string& source) {
  std::istringstream lines(source);
  std::string declared;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("constant ")) {
      declared += line + "\n";
    }
  }
  return declared;
}

// C++ that gives constants and buffers their values, by the indices that the
// source itself declares.
std::string entry_points(const Launch& launch, const std::string& source) {
  std::string assignments;
  std::string addresses;
  const auto declared = declared_constants(source);
  auto constant = R"(constant \w+ (\w+) \[\[function_constant\((\d+)\)\]\];)";
  for (auto& match : matches(declared, constant)) {
    assignments += match.str(1) + " = values[" + match.str(2) + "];\n";
    addresses += " || p == &" + match.str(1);
  }
  for (auto& match : matches(declared, R"(constant \w+ (\w+) = )")) {
    addresses += " || p == &" + match.str(1);
  }
  auto signature = signature_of(launch, source);
  std::string arguments;
  for (auto& match : matches(signature, R"(\[\[buffer\((\d+)\))")) {
    arguments += "Buffer{buffers[" + match.str(1) + "]}, ";
  }
  bool has_lanes = signature.find(kLaneAttribute) != std::string::npos;
  return "extern \"C\" {\nUNWATCHED void set_constants(const int32_t* values) "
         "{\n" +
      assignments +
      "}\nUNWATCHED bool is_constant(const void* p) {\nreturn false" +
      addresses + ";\n}\n" +
      "UNWATCHED void run(void* const* buffers, uint3 at, uint lane) {\n" +
      "(void)lane;\n" + launch.kernel + "(" + arguments + "at" +
      (has_lanes ? ", lane" : "") + ");\n}\n}\n";
}

void run_command(const std::string& command) {
  // A sanitizer that is loaded into this process is not for the compiler.
  if (std::system(("LD_PRELOAD= " + command).c_str()) != 0) {
    throw std::runtime_error("failed: " + command);
  }
}

// A file that other processes may be writing, too.
void write(
    const fs::path& file,
    const std::function<void(const std::string&)>& produce) {
  auto unique = file.string() + "_" + std::to_string(getpid());
  produce(unique);
  fs::rename(unique, file);
}

std::string compiler() {
  // Metal 3.1 is based on C++14, without exceptions.
  return env("CXX", "c++") +
      " -std=c++14 -fno-exceptions -fPIC -Wall -Wextra -Werror" +
      " -Wno-attributes " + env("MLX_POOLING_SHADER_FLAGS", kWatched) +
      " -isystem " + MLX_POOLING_HOST_INCLUDE;
}

void write_text(const fs::path& file, const std::string& text) {
  write(file, [&](const std::string& name) { std::ofstream(name) << text; });
}

// What shaders share, parsed once for all: that would take a third of the time.
void compile_header(const fs::path& header, const std::string& source) {
  write_text(header, source);
  write(header.string() + ".gch", [&](const std::string& name) {
    run_command(
        compiler() + " -x c++-header -o " + name + " " + header.string());
  });
}

void compile(
    const fs::path& library,
    const std::string& source,
    const fs::path& reports) {
  auto code = library.string() + ".cpp";
  write_text(code, source);
  // To link all that C++ may need takes a fifth of the time.
  const std::string libraries = watches() ? " -nostdlib -lm -lgcc" : "";
  write(library, [&](const std::string& name) {
    run_command(
        compiler() + " -shared -o " + name + " " + code + " " +
        reports.string() + libraries);
  });
}

fs::path host_file(const char* name) {
  return fs::path(MLX_POOLING_HOST_INCLUDE) / name;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string hash(const std::string& text) {
  static const auto shared = compiler() + text_of(host_file("metal_stdlib")) +
      text_of(host_file("reports.h")) + text_of(host_file("reports.cpp"));
  return "_" + std::to_string(std::hash<std::string>{}(text + shared));
}

// What all shaders call, compiled once for all.
fs::path compiled_reports(const fs::path& folder) {
  auto object = folder / ("reports" + hash("") + ".o");
  if (!fs::exists(object)) {
    write(object, [&](const std::string& name) {
      run_command(
          compiler() + " -c -o " + name + " " +
          host_file("reports.cpp").string());
    });
  }
  return object;
}

void access(const void* address, size_t size, size_t alignment, Kind kind);
uint32_t exchange(uint32_t value, uint32_t mask);

// The source of a launch with the fault that a test plants: "text => faulty".
std::string faulty_source(const Launch& launch, const std::string& fault) {
  auto source = launch.source();
  const std::string arrow = " => ";
  if (auto split = fault.find(arrow); split != std::string::npos) {
    auto text = fault.substr(0, split);
    if (source.find(text) == std::string::npos) {
      throw std::invalid_argument("no such text in the shaders: " + text);
    }
    for (size_t at = 0; (at = source.find(text, at)) != std::string::npos;) {
      auto faulty = fault.substr(split + arrow.size());
      source.replace(at, text.size(), faulty);
      at += faulty.size();
    }
  }
  return source;
}

Shader load(const Launch& launch) {
  static std::map<std::string, Shader> loaded;
  auto fault = env("MLX_POOLING_SHADER_FAULT", "");
  auto key = launch.kernel + fault;
  if (auto it = loaded.find(key); it != loaded.end()) {
    return it->second;
  }
  auto source = faulty_source(launch, fault);
  auto signature = signature_of(launch, source);
  auto entries = entry_points(launch, source);
  // Less the instantiation, which is nothing here.
  auto shared =
      source.substr(0, source.rfind("MLX_POOLING_INSTANTIATE(")) + kBuffer;
  fs::path folder = env(
      "MLX_POOLING_SHADER_CACHE", fs::temp_directory_path() / "mlx_pooling");
  fs::create_directories(folder);
  auto library = folder / (launch.name() + hash(shared + entries) + ".so");
  if (!fs::exists(library)) {
    auto header = folder / ("shared" + hash(shared) + ".h");
    if (!fs::exists(header.string() + ".gch")) {
      compile_header(header, shared);
    }
    compile(
        library, "#include \"" + header.filename().string() + "\"\n" + entries,
        compiled_reports(folder));
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw std::runtime_error(dlerror());
  }
  Shader shader;
  shader.has_lanes = signature.find(kLaneAttribute) != std::string::npos;
  auto resolve = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(handle, symbol));
  };
  resolve(shader.set_report, "set_report");
  resolve(shader.set_exchange, "set_exchange");
  resolve(shader.set_constants, "set_constants");
  resolve(shader.is_constant, "is_constant");
  resolve(shader.run, "run");
  shader.set_report(access);
  shader.set_exchange(exchange);
  return loaded[key] = shader;
}

// So that an array looks wrong where none of the launches writes its part.
constexpr int kUnwritten = 0xa5;

// A buffer as Metal would bind it: its start aligned, the array at its offset,
// nothing behind it.
struct Bound {
  Bound(int index, const Binding& binding, bool is_first_part)
      : index(index),
        binding(binding),
        offset(binding.data->offset() % 16),
        bytes(binding.data->nbytes()),
        memory(new (std::align_val_t(16)) char[offset + bytes]) {
    if (is_result()) {
      writers.assign(bytes, 0);
    }
    if (binding.access == Access::part && is_first_part) {
      std::memset(data(), kUnwritten, bytes);
    } else if (binding.access != Access::write) {
      std::memcpy(data(), binding.data->data<char>(), bytes);
    }
  }

  bool is_result() const {
    return binding.access == Access::write || binding.access == Access::part;
  }

  char* data() const {
    return memory.get() + offset;
  }

  int index; // of the kernel's buffers
  Binding binding;
  size_t offset;
  size_t bytes;
  struct Free {
    void operator()(char* p) const {
      operator delete[](p, std::align_val_t(16));
    }
  };
  std::unique_ptr<char[], Free> memory;
  std::vector<uint8_t> writers; // of each byte of an output
  Traffic traffic;
};

// What the accesses of the running launch are checked against.
struct Watch {
  std::vector<Bound>* bound = nullptr;
  const PoolParams* params = nullptr;
  bool (*is_constant)(const void*) = nullptr;
  std::jmp_buf stop;
  std::string error;
};

Watch watch;

[[noreturn]] void stop(const std::string& error) {
  if (simdgroup().is_running()) {
    simdgroup().abandon(error);
  }
  watch.error = error;
  std::longjmp(watch.stop, 1);
}

void write_once(Bound& bound, size_t first, size_t size) {
  for (auto i = first; i < first + size; ++i) {
    if (bound.writers[i]++ != 0) {
      stop("element written twice");
    }
  }
}

bool is_own_memory(const char* at) {
  auto distance = reinterpret_cast<intptr_t>(at) -
      reinterpret_cast<intptr_t>(__builtin_frame_address(0));
  bool on_stack = std::abs(distance) < 64 * 1024;
  auto* params = reinterpret_cast<const char*>(watch.params);
  return on_stack || (at >= params && at < params + sizeof(PoolParams)) ||
      watch.is_constant(at);
}

// What is wrong with such an access to such a buffer; empty: nothing.
std::string fault(Access access, Kind kind) {
  if (access == Access::update) {
    return kind == Kind::atomic ? "" : "access to an updated buffer not atomic";
  }
  if (access == Access::read) {
    return kind == Kind::read ? "" : "write to an input";
  }
  return kind == Kind::write ? "" : "read of an output";
}

void access(const void* address, size_t size, size_t alignment, Kind kind) {
  auto* at = static_cast<const char*>(address);
  for (auto& bound : *watch.bound) {
    if (at < bound.data() || at >= bound.data() + bound.bytes) {
      continue;
    }
    if (at + size > bound.data() + bound.bytes) {
      stop("access past the end of a buffer");
    }
    if (reinterpret_cast<uintptr_t>(at) % alignment != 0) {
      stop("misaligned access of " + std::to_string(size) + " bytes");
    }
    if (auto error = fault(bound.binding.access, kind); !error.empty()) {
      stop(error);
    }
    if (kind == Kind::write) {
      write_once(bound, at - bound.data(), size);
    }
    bound.traffic.loads += kind != Kind::write;
    bound.traffic.stores += kind != Kind::read;
    bound.traffic.bytes += size;
    return;
  }
  if (!is_own_memory(at)) {
    stop(
        kind == Kind::read ? "read outside every buffer"
                           : "write outside every buffer");
  }
}

uint32_t exchange(uint32_t value, uint32_t mask) {
  if (!simdgroup().is_running()) {
    stop("shuffle of a thread that does not know its lane");
  }
  return simdgroup().exchange(value, mask);
}

uint64_t count_of(Size size) {
  return uint64_t{size[0]} * size[1] * size[2];
}

void in_order(
    Size grid, Order order, const std::function<void(Position)>& visit) {
  auto count = count_of(grid);
  std::vector<uint64_t> sequence(count);
  std::iota(sequence.begin(), sequence.end(), 0);
  if (order == Order::reverse) {
    std::reverse(sequence.begin(), sequence.end());
  } else if (order == Order::shuffled) {
    std::shuffle(sequence.begin(), sequence.end(), std::mt19937(0));
  }
  for (auto i : sequence) {
    visit(
        {static_cast<uint32_t>(i % grid[0]),
         static_cast<uint32_t>(i / grid[0] % grid[1]),
         static_cast<uint32_t>(i / grid[0] / grid[1])});
  }
}

// The threads of a threadgroup: at the far ends of the grid it has fewer.
std::vector<Position> threads_in(const Launch& launch, Position group) {
  std::array<uint32_t, 3> at{group.x, group.y, group.z};
  Size size;
  for (int i = 0; i < 3; ++i) {
    at[i] *= launch.threadgroup[i];
    size[i] = std::min(launch.threadgroup[i], launch.grid[i] - at[i]);
  }
  std::vector<Position> threads;
  in_order(size, Order::forward, [&](Position inside) {
    threads.push_back({at[0] + inside.x, at[1] + inside.y, at[2] + inside.z});
  });
  return threads;
}

// Simdgroups are consecutive threads of a threadgroup: along x, then y and z.
void run_simdgroups(const Launch& launch, Shader shader, void* const* buffers) {
  constexpr size_t lanes = Simdgroup::kLanes;
  auto order = settings().order;
  Size groups;
  for (int i = 0; i < 3; ++i) {
    auto size = launch.threadgroup[i];
    groups[i] = (launch.grid[i] + size - 1) / size;
  }
  in_order(groups, order, [&](Position group) {
    auto threads = threads_in(launch, group);
    for (size_t first = 0; first < threads.size(); first += lanes) {
      auto count = std::min(lanes, threads.size() - first);
      auto error =
          simdgroup().run(count, order == Order::reverse, [&](uint32_t lane) {
            shader.run(buffers, threads[first + lane], lane);
          });
      if (!error.empty()) {
        stop(error);
      }
    }
  });
}

void check_all_written(const Bound& bound) {
  auto missing = std::find(bound.writers.begin(), bound.writers.end(), 0);
  if (missing != bound.writers.end()) {
    watch.error = "byte " + std::to_string(missing - bound.writers.begin()) +
        " of " + std::to_string(bound.bytes) + " not written";
  }
}

void check_limits(const Launch& launch) {
  auto count = count_of(launch.threadgroup);
  if (count > 1024 || count == 0) {
    watch.error = "threadgroup of illegal size";
  }
}

bool is_first_part(const PoolParams& params) {
  auto& first = params.results.first;
  return params.x.first == 0 && params.y.first == 0 &&
      std::all_of(first, first + 3, [](auto at) { return at == 0; });
}

constexpr int64_t kTimesAhead = int64_t{1} << 20;

// Of an array, before where a launch is told that it begins.
int64_t bytes_ahead(const Bound& bound) {
  return settings().items == 0 ? 0 : kTimesAhead * bound.bytes;
}

void* first_of_far(const Bound& bound) {
  auto at = reinterpret_cast<uintptr_t>(bound.data()) - bytes_ahead(bound);
  return reinterpret_cast<void*>(at);
}

// While it lives, the thread's arithmetic takes subnormals of float32 for
// zeros, as Apple's GPUs do.
class FlushesSubnormals {
 public:
  FlushesSubnormals() {
    set(before_ | kFlush);
  }

  ~FlushesSubnormals() {
    set(before_);
  }

 private:
#if defined(__x86_64__)
  static constexpr uint32_t kFlush = 0x8040; // inputs, and results
  static uint32_t get() {
    return __builtin_ia32_stmxcsr();
  }
  static void set(uint32_t control) {
    __builtin_ia32_ldmxcsr(control);
  }
#elif defined(__aarch64__)
  static constexpr uint64_t kFlush = 1 << 24;
  static uint64_t get() {
    uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void set(uint64_t control) {
    asm volatile("msr fpcr, %0" : : "r"(control));
  }
#endif

  const decltype(get()) before_ = get();
};

// Runs every thread of a launch; what goes wrong is left in `watch`.
void run_on_host(
    const Launch& launch, PoolParams& params, std::vector<Bound>& bound) {
  auto shader = load(launch);
  std::array<void*, kParamsIndex + 1> buffers{};
  for (auto& b : bound) {
    buffers[b.index] = first_of_far(b);
  }
  buffers[kParamsIndex] = &params;
  watch = {&bound, &params, shader.is_constant, {}, ""};
  check_limits(launch);
  FlushesSubnormals flushes;
  shader.set_constants(launch.constants.data());
  if (!watch.error.empty() || setjmp(watch.stop) != 0) {
    return;
  }
  if (shader.has_lanes) {
    run_simdgroups(launch, shader, buffers.data());
  } else {
    in_order(launch.grid, settings().order, [&](Position at) {
      shader.run(buffers.data(), at, 0);
    });
  }
}

double run_on_gpu(
    const Launch& launch, const PoolParams& params, std::vector<Bound>& bound) {
  auto source = faulty_source(launch, env("MLX_POOLING_SHADER_FAULT", ""));
  std::vector<HostBuffer> buffers;
  for (auto& b : bound) {
    buffers.push_back(
        {b.index, b.data(), b.bytes, b.offset, bytes_ahead(b),
         b.binding.access != Access::read});
  }
  auto run = run_on_cuda(launch, params, source, buffers, settings().repeats);
  watch.error = run.error;
  return run.milliseconds;
}

void execute(const Launch& launch, std::vector<Binding> bindings) {
  auto params = launch.params;
  params.first_item += settings().items * kTimesAhead;
  std::vector<Bound> bound;
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].data != nullptr) {
      bound.emplace_back(
          static_cast<int>(i), bindings[i], is_first_part(params));
      bound.back().traffic.array = launch.buffers[i].array;
    }
  }
  watch = {};
  double milliseconds = 0;
  if (settings().on_cuda) {
    milliseconds = run_on_gpu(launch, params, bound);
  } else {
    run_on_host(launch, params, bound);
  }
  Record record{launch, {}, watch.error, milliseconds};
  for (auto& b : bound) {
    record.traffic.push_back(b.traffic);
    if (b.binding.access == Access::read) {
      continue;
    }
    bool is_watched = watches() && !settings().on_cuda;
    if (b.binding.access == Access::write && watch.error.empty() &&
        is_watched) {
      check_all_written(b);
      record.error = watch.error;
    }
    std::memcpy(
        const_cast<mx::array*>(b.binding.data)->data<char>(), b.data(),
        b.bytes);
  }
  settings().records.push_back(std::move(record));
}

} // namespace

mx::array temporary(mx::Dtype dtype, mx::Shape shape, mx::Stream stream) {
  mx::array made(std::move(shape), dtype, nullptr, {});
  made.set_data(mx::allocator::malloc(made.nbytes()));
  mx::cpu::get_command_encoder(stream).add_temporary(made);
  return made;
}

void encode(
    const Launch& launch,
    const std::vector<Binding>& bindings,
    mx::Stream stream) {
  std::vector<std::optional<mx::array>> arrays;
  for (auto& binding : bindings) {
    arrays.push_back(
        binding.data ? std::optional(mx::array::unsafe_weak_copy(*binding.data))
                     : std::nullopt);
  }
  mx::cpu::get_command_encoder(stream).dispatch(
      [launch, bindings = bindings, arrays = std::move(arrays)]() mutable {
        for (size_t i = 0; i < bindings.size(); ++i) {
          bindings[i].data = arrays[i] ? &*arrays[i] : nullptr;
        }
        // MLX would wait for ever for a launch that throws.
        try {
          execute(launch, bindings);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "%s: %s\n", launch.kernel.c_str(), error.what());
          std::abort();
        }
      });
}

} // namespace mlx_pooling::metal
