#pragma once

// The kernel sources are compiled once for each instruction set, by the build,
// which names it in MLX_POOLING_ISA. Everything they define lives in a
// namespace of that name, so that the linker cannot give one instruction set's
// copy of an inline function to another; but what std::visit throws, which none
// does.
#if !defined(MLX_POOLING_ISA)
#error "Only for the kernel sources, which the build gives an MLX_POOLING_ISA."
#endif
