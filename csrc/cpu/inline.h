#pragma once

// For what kernels call outside the namespaces of isa.h and compilers might not
// inline: the linker would give one instruction set's copy to the others.
#define MLX_POOLING_INLINE [[gnu::always_inline]] inline
