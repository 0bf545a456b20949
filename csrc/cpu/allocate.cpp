#include "cpu/allocate.h"

#include <cstdint>
#include <new>
#include <utility>

#include "cpu/line.h"
#include "mlx/allocator.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace mlx_pooling::cpu {

namespace {

// Asks for huge pages, of which large memory needs a few where it would need
// thousands: each costs a fault when it is first written to, and an entry of
// the few that address translation keeps. Where the system has none, nothing
// changes.
void use_huge_pages(
    [[maybe_unused]] char* begin, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  constexpr size_t kLeast = 4 << 20;
  if (bytes >= kLeast) {
    auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto skipped = -reinterpret_cast<uintptr_t>(begin) % page;
    madvise(begin + skipped, bytes - skipped, MADV_HUGEPAGE);
  }
#endif
}

} // namespace

void allocate(mlx::core::array& output) {
  auto data = mlx::core::allocator::malloc(output.nbytes() + kLineBytes - 1);
  if (data.buffer().ptr() == nullptr) {
    throw std::bad_alloc();
  }
  auto* begin = static_cast<char*>(data.buffer().raw_ptr());
  use_huge_pages(begin, output.nbytes());
  auto skipped = -reinterpret_cast<uintptr_t>(begin) % kLineBytes;
  output.set_data(std::move(data));
  output.copy_shared_buffer(
      output, output.strides(), output.flags(), output.data_size(),
      static_cast<int64_t>(skipped / output.itemsize()));
}

} // namespace mlx_pooling::cpu
