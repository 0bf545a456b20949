#pragma once

// Always inlined is, outside the namespaces of isa.h, what kernels call: the
// linker would give one instruction set's copy to the others.
#define MLX_POOLING_INLINE [[gnu::always_inline]] inline
