#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metal/launch.h"

namespace mlx_pooling::metal {

// What a launch did to one of its buffers.
struct Traffic {
  int array; // of its plan
  uint64_t loads = 0;
  uint64_t stores = 0;
  uint64_t bytes = 0;
};

struct Record {
  Launch launch;
  std::vector<Traffic> traffic; // of the buffers bound, in order
  std::string error;            // empty: none
  double milliseconds = 0;      // on CUDA, of the fastest repeat
};

enum class Order { forward, reverse, shuffled };

struct Settings {
  bool run_shaders = false; // instead of the CPU kernels
  Order order = Order::forward;
  bool on_cuda = false;     // shaders run on an NVIDIA GPU, not on the CPU
  int repeats = 0;          // there, of five launches
  bool as_released = false; // plans are those of a Mac, not of small arrays
  // Not 0: arrays of so many items are bound as the last of 2^20 times as many.
  int64_t items = 0;
  std::vector<Record> records;
};

Settings& settings();

} // namespace mlx_pooling::metal
