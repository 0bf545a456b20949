#pragma once

#include <cstddef>
#include <cstdint>

namespace mlx_pooling::cpu {

// Buffers of the calling thread, which keeps all but huge ones for the next who
// asks. A Scratch hands each out once: there must be one at a time on a thread.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

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
