#include "cpu/scratch.h"

#include <memory>
#include <new>
#include <vector>

#include "cpu/line.h"

namespace mlx_pooling::cpu {

namespace {

constexpr std::align_val_t kAlignment{kLineBytes};

struct Free {
  void operator()(void* data) const {
    ::operator delete(data, kAlignment);
  }
};

struct Buffer {
  std::unique_ptr<void, Free> data;
  size_t bytes = 0;
};

thread_local std::vector<Buffer> buffers;

} // namespace

Scratch::~Scratch() {
  constexpr size_t kMostKept = size_t{64} << 20;
  for (size_t i = 0; i < taken_; ++i) {
    if (buffers[i].bytes > kMostKept) {
      buffers[i] = {};
    }
  }
}

void* Scratch::buffer(size_t bytes) {
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
