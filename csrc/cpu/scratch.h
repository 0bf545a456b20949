#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx_pooling::cpu {

// Buffers of the calling thread, which keeps them for the next one who asks. A
// Scratch hands each out once: there must be one at a time on a thread.
class Scratch {
 public:
  template <typename T>
  T* take(int64_t count) {
    // Vectors may reach past the last element.
    constexpr size_t kSlack = 256;
    return static_cast<T*>(buffer(count * sizeof(T) + kSlack));
  }

 private:
  void* buffer(size_t bytes);

  size_t taken_ = 0;
};

} // namespace mlx_pooling::cpu
