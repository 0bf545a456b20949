#include "cpu/allocate.h"

#include <cstdint>
#include <utility>

#include "mlx/allocator.h"

namespace mlx_pooling::cpu {

void allocate(mlx::core::array& output) {
  constexpr uintptr_t kAlignment = 64;
  auto data = mlx::core::allocator::malloc(output.nbytes() + kAlignment - 1);
  auto begin = reinterpret_cast<uintptr_t>(data.buffer().raw_ptr());
  auto skipped = (kAlignment - begin % kAlignment) % kAlignment;
  output.set_data(std::move(data));
  output.copy_shared_buffer(
      output, output.strides(), output.flags(), output.data_size(),
      static_cast<int64_t>(skipped / output.itemsize()));
}

} // namespace mlx_pooling::cpu
