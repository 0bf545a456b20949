#pragma once

#include <string>
#include <vector>

#include "metal/launch.h"

namespace mlx_pooling::metal {

// An array of a launch, in the host's memory.
struct HostBuffer {
  int index; // of the kernel's buffers
  char* data;
  size_t bytes;
  size_t offset;       // of its first element, from a multiple of 16 bytes
  int64_t bytes_ahead; // from where the launch believes the first element
  bool is_result;
};

// The source of a launch as CUDA C++, with the function constants' values and
// an entry.
std::string cuda_source(const Launch& launch, const std::string& source);

struct CudaRun {
  std::string error;   // empty: none
  double milliseconds; // a launch of the fastest repeat
};

// Runs a launch on an NVIDIA GPU, with its source compiled as CUDA C++: once,
// and then to time it so many repeats of five.
CudaRun run_on_cuda(
    const Launch& launch,
    const PoolParams& params,
    const std::string& source,
    const std::vector<HostBuffer>& buffers,
    int repeats);

// Throws where there is no GPU or no compiler for it.
void require_cuda();

std::string cuda_device();

// Bytes read and written in a second by a copy within the GPU's memory.
double cuda_copy_bandwidth();

} // namespace mlx_pooling::metal
