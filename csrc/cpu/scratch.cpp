#include "cpu/scratch.h"

#include <memory>
#include <new>
#include <vector>

namespace mlx_pooling::cpu {

namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(void* data) const {
    ::operator delete(data, kAlignment);
  }
};

struct Buffer {
  std::unique_ptr<void, Free> data;
  size_t bytes = 0;
};

} // namespace

void* Scratch::buffer(size_t bytes) {
  thread_local std::vector<Buffer> buffers;
  if (taken_ == buffers.size()) {
    buffers.emplace_back();
  }
  auto& [data, size] = buffers[taken_++];
  if (size < bytes) {
    data.reset();
    size = 0; // until there is memory, which there may not be
    data.reset(::operator new(bytes, kAlignment));
    size = bytes;
  }
  return data.get();
}

} // namespace mlx_pooling::cpu
