#pragma once

#include <cstddef>
#include <cstdint>

// What a shader that runs on the host is told to call.

enum class Kind : int { read, write, atomic };

// `alignment` is what the type of the access demands.
using Report =
    void (*)(const void* address, size_t size, size_t alignment, Kind kind);

// Of a word, with the lane whose number differs in `mask`.
using Exchange = uint32_t (*)(uint32_t value, uint32_t mask);
