#include "cpu/cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mlx_pooling::cpu {

namespace {

namespace fs = std::filesystem;

// One value, as the system shows it; T{} where there is none.
template <typename T>
T read(const fs::path& file) {
  T value{};
  std::ifstream(file) >> value;
  return value;
}

fs::path last_level(const fs::path& cpu) {
  fs::path last;
  int last_level = 0;
  for (int index = 0;; ++index) {
    auto cache = fs::path("cache") / ("index" + std::to_string(index));
    auto level = read<int>(cpu / cache / "level");
    if (level == 0) {
      return last;
    }
    if (level > last_level) {
      last_level = level;
      last = cache;
    }
  }
}

#if defined(__x86_64__)
bool has_avx_vnni() {
  unsigned eax;
  unsigned others[3];
  constexpr unsigned kBit = 1 << 4;
  return __get_cpuid_count(7, 1, &eax, &others[0], &others[1], &others[2]) &&
      (eax & kBit) != 0;
}
#endif

// Whether a core stores as fast around them as it copies. AMD's do, and Intel's
// that have AVX-VNNI. Older ones take up to twice the time, since each store
// waits longer for one of the few buffers that loads need too.
bool stores_well_around_caches() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") || has_avx_vnni();
#else
  return false;
#endif
}

// Half of the last-level caches: what is computed next shares them, as do other
// programs. Not more than this process' CPUs gain by: where one cache serves a
// hundred cores it is far from each, and a virtual machine has few of them.
int64_t share_of_caches() {
  constexpr int64_t kMostOfCpu = 16 << 20;
  const fs::path cpus = "/sys/devices/system/cpu";
  auto last = last_level(cpus / "cpu0");
  if (last.empty()) {
    return 0;
  }
  // Each is named by the CPUs that share it.
  std::set<std::string> caches;
  for (int number = 0;; ++number) {
    auto cpu = cpus / ("cpu" + std::to_string(number));
    if (!fs::exists(cpu)) {
      break;
    }
    auto shared_by = read<std::string>(cpu / last / "shared_cpu_list");
    if (!shared_by.empty()) { // not of one that is switched off
      caches.insert(shared_by);
    }
  }
  auto kilobytes = read<int64_t>(cpus / "cpu0" / last / "size");
  auto all = static_cast<int64_t>(caches.size()) * kilobytes * 1024;
  return std::min(all / 2, std::thread::hardware_concurrency() * kMostOfCpu);
}

} // namespace

int64_t most_cached_bytes() {
  static const int64_t bytes = [] {
    if (const char* given = std::getenv("MLX_POOLING_CACHE_BYTES")) {
      char* end;
      auto number = static_cast<int64_t>(std::strtoll(given, &end, 10));
      if (end != given) {
        return number;
      }
    }
    return stores_well_around_caches() ? share_of_caches() : 0;
  }();
  return bytes;
}

bool outgrows_caches(int64_t bytes) {
  auto most = most_cached_bytes();
  return most > 0 && bytes > most;
}

} // namespace mlx_pooling::cpu
