#pragma once

#include "geometry.h"
#include "metal/plan.h"

namespace mlx_pooling::metal {

// What all plans make launches from.

// Names the element type in the shaders. complex64 is read as the float pairs
// that the geometry counts as channels.
const char* type_name(mlx::core::Dtype dtype);

// Any type of that size, for elements that are only moved.
const char* word_name(mlx::core::Dtype dtype);

// 32-bit index arithmetic is exact where every element and every padded
// position has a 32-bit number, with room for one tile beyond the last, and
// where what an adaptive window starts at is divided from does.
const char* index_type(const Geometry& g, int64_t elements, int tile);

// What launches leave sums to each other in: the geometry counts the parts of
// complex64.
mlx::core::Dtype sum_dtype(mlx::core::Dtype dtype);

int64_t element_bytes(mlx::core::Dtype dtype);

// The most elements, a power of two, that 16 bytes of every operand have.
int full_width(const std::vector<Operand>& operands);

// The most channels, a power of two, that one 16-byte access can move of every
// operand.
int vector_width(int64_t channels, const std::vector<Operand>& operands);

std::string instantiation(
    const std::string& kernel, const std::vector<std::string>& arguments);

Launch
make_launch(std::string kernel, const Geometry& g, std::vector<Buffer> buffers);

void set(Launch& launch, Constant constant, bool value);

// Whether all windows have the same divisor, which `params` then carries.
void set_divisor(Launch& launch, const Geometry& g);

// Whether a tile of windows reaches outside the input: the last may have
// windows beyond the last output.
bool leaves_input(const Axis& axis, int tile);

// Splits rows over launches that each have a 32-bit grid.
std::vector<Launch>
launches(Launch launch, int64_t columns, int64_t tiles, int64_t rows);

void append(Plan& plan, const std::vector<Launch>& launches);

int64_t ceil_div(int64_t a, int64_t b);

} // namespace mlx_pooling::metal
