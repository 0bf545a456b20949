#include "cpu/unpool.h"

#include <algorithm>
#include <vector>

#include "cpu/line.h"
#include "cpu/parallel.h"
#include "cpu/word.h"

namespace mlx_pooling::cpu {

namespace mx = mlx::core;

namespace {

// Some channels of one plane and of the elements that go there.
struct Columns {
  int64_t plane; // positions
  int64_t elements;
  int64_t channels; // from one position to the next
  int64_t first;    // of the channels
  int64_t last;

  // From the last to the first, which stays. Of channels as well: memory is
  // then gone through in one direction, which hardware expects.
  template <typename T>
  void place(const uint32_t* indices, const T* x, T* y) const {
    clear(y);
    for (auto i = elements - 1; i >= 0; --i) {
      for (auto c = last - 1; c >= first; --c) {
        auto index = indices[i * channels + c];
        if (index < plane) {
          y[index * channels + c] = x[i * channels + c];
        }
      }
    }
  }

  template <typename T>
  void take(const uint32_t* indices, const T* dy, T* dx) const {
    const auto own = last - first;
    std::vector<uint8_t> is_taken(plane * own);
    for (int64_t i = 0; i < elements; ++i) {
      for (auto c = first; c < last; ++c) {
        auto index = indices[i * channels + c];
        auto share = T{0};
        if (index < plane) {
          auto& taken = is_taken[index * own + c - first];
          // A branch would be anyone's guess.
          auto all_if_free = static_cast<T>(T{taken} - 1);
          share = dy[index * channels + c] & all_if_free;
          taken = 1;
        }
        dx[i * channels + c] = share;
      }
    }
  }

 private:
  template <typename T>
  void clear(T* y) const {
    if (last - first == channels) {
      std::fill_n(y, plane * channels, T{0});
      return;
    }
    for (int64_t i = 0; i < plane; ++i) {
      std::fill(y + i * channels + first, y + i * channels + last, T{0});
    }
  }
};

// Channels that are worked on together: all, or as many whole cache lines as
// leave every thread something to do.
int64_t channels_at_once(const Geometry& geometry, int64_t size) {
  auto line = std::max<int64_t>(1, kLineBytes / size);
  auto most = geometry.batch * geometry.channels / max_threads();
  return std::clamp(
      most / line * line, line, std::max(line, geometry.channels));
}

// Calls visit(columns, plane, elements) where those begin, in elements.
template <typename Visit>
void for_each_column(const Geometry& geometry, int64_t size, Visit visit) {
  auto channels = geometry.channels;
  auto plane = geometry.inputs() / geometry.batch;
  auto elements = geometry.outputs() / geometry.batch;
  auto block = channels_at_once(geometry, size);
  auto blocks = ceil_div(channels, block);
  auto bytes = (plane + 2 * elements) * geometry.batch * channels * size;
  parallel_for(geometry.batch * blocks, bytes, [=](int64_t begin, int64_t end) {
    for (auto unit = begin; unit < end; ++unit) {
      auto n = unit / blocks;
      auto first = unit % blocks * block;
      auto last = std::min(first + block, channels);
      visit(
          Columns{plane, elements, channels, first, last}, n * plane * channels,
          n * elements * channels);
    }
  });
}

} // namespace

void max_unpool(
    const Geometry& geometry,
    const mx::array& indices,
    const mx::array& x,
    mx::array& y) {
  with_word(x.dtype().val(), [&]<typename T>(T) {
    for_each_column(
        geometry, sizeof(T),
        [indices = indices.data<uint32_t>(), x = x.data<T>(), y = y.data<T>()](
            Columns columns, int64_t plane, int64_t elements) {
          columns.place(indices + elements, x + elements, y + plane);
        });
  });
}

void max_unpool_grad(
    const Geometry& geometry,
    const mx::array& indices,
    const mx::array& dy,
    mx::array& dx) {
  with_word(dy.dtype().val(), [&]<typename T>(T) {
    for_each_column(
        geometry, sizeof(T),
        [indices = indices.data<uint32_t>(), dy = dy.data<T>(),
         dx = dx.data<T>()](Columns columns, int64_t plane, int64_t elements) {
          columns.take(indices + elements, dy + plane, dx + elements);
        });
  });
}

} // namespace mlx_pooling::cpu
