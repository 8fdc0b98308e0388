// Memory on the current GPU. Defined in cuda/gpu_memory.cpp, and in loaded/, which loads the
// library that has it.
#pragma once

#include <cstddef>

namespace reigen {

// Throws DeviceError with the free memory and advice when there is not enough.
void* gpu_allocate(size_t bytes, const char* what);
void gpu_free(void* memory, size_t bytes);

// The most this process had allocated at once, without CUDA's own memory.
size_t gpu_peak_bytes();

}  // namespace reigen
