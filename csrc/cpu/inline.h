#pragma once

// Inlined by every compiler: in the namespaces of isa.h so that vectors stay in
// registers; outside of them, in what kernels call, since the linker would give
// one instruction set's copy to the others.
#define MLX_POOLING_INLINE [[gnu::always_inline]] inline
