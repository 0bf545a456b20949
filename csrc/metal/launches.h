#pragma once

#include "geometry.h"
#include "metal/plan.h"
#include "metal/select.h"

namespace mlx_pooling::metal {

// What all plans make launches from.

// Of one element as shaders see it, which is a part where a dtype is complex.
int64_t element_bytes(mlx::core::Dtype dtype);

// Names the element type in the shaders. complex64 is read as the float pairs
// that the geometry counts as channels.
const char* type_name(mlx::core::Dtype dtype);

// Any type of that size, for elements that are only moved.
const char* word_name(mlx::core::Dtype dtype);

// Of an array (N, depth, height, width, channels).
Layout
row_major(int64_t depth, int64_t height, int64_t width, int64_t channels);

// Of row-major arrays with the sizes of input and output.
struct Layouts {
  Layout x;
  Layout y;
};
Layouts layouts(const Geometry& g);

// How far a thread looks along an axis, from the first position to the last:
// over inputs, where it has a tile of neighbouring windows,
int64_t window_extent(const Axis& axis, int tile);
// and over windows, where it has neighbouring inputs.
int64_t cover_extent(const Axis& axis, int tile);

// How far behind the start of the first window around it a position lies that
// is a multiple of the stride; gaps between taps count as the window's.
// Negative where there is no window around it.
int64_t first_cover_tap(const Axis& axis);

// The type of a thread's index arithmetic, which begins at its first element of
// each array and goes as far as `reach` elements. 32 bits do for that and where
// every padded position has a 32-bit number, with room for one tile beyond the
// last, and a window's span and what an adaptive one starts at is divided from
// have.
const char* index_type(const Geometry& g, int tile, int64_t reach);

// What launches leave sums to each other in: the geometry counts the parts of
// complex64.
mlx::core::Dtype sum_dtype(mlx::core::Dtype dtype);

// What an average of that leaves in them.
mlx::core::Dtype average_sum_dtype(mlx::core::Dtype dtype);

// Operands of a launch that sums: vectors of bytes are no longer than those of
// 16-bit floats, since sums are as long as theirs.
std::vector<Operand> summed(Operand from, Operand to);

// The most elements, a power of two, that 16 bytes of every operand have.
int full_width(const std::vector<Operand>& operands);

// The most channels, a power of two, that one 16-byte access can move of every
// operand.
int vector_width(int64_t channels, const std::vector<Operand>& operands);

std::string instantiation(
    const std::string& kernel, const std::vector<std::string>& arguments);

// Kernels and strides are constants where they are small; set_all_sizes makes
// them constants all.
Launch
make_launch(std::string kernel, const Geometry& g, std::vector<Buffer> buffers);
void set_all_sizes(Launch& launch, const Geometry& g);

void set(Launch& launch, Constant constant, bool value);

// Whether all windows have the same divisor, which `params` then carries.
void set_divisor(Launch& launch, const Geometry& g);

// Of a launch that only sums.
void set_no_divisor(Launch& launch);

// Of a launch that averages: how it reads x, if it does, and what it makes of
// sums, if they are y.
void set_terms(Launch& launch, Averaging averaging);
void set_averages(Launch& launch, const Geometry& g, Averaging averaging);

// Whether one of so many windows reaches outside the input: tiles may have
// windows beyond the last output.
bool leaves_input(const Axis& axis, int64_t windows);

// Over the results of a batch of so many items, tile by tile, and so many
// vectors of channels. Rows are split, at planes, over launches that each have
// a 32-bit grid.
std::vector<Launch>
launches(Launch launch, int64_t items, int64_t vectors, Tile tile);

void append(Plan& plan, const std::vector<Launch>& launches);

} // namespace mlx_pooling::metal
