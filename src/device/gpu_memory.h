// Memory on the current GPU. Defined in cuda/gpu_memory.cpp, or in stub/ where there is no backend.
#pragma once

#include <cstddef>

namespace reigen {

// Throws DeviceError that says how much is free and what to lower when there is not enough.
void* gpu_allocate(size_t bytes, const char* what);
void gpu_free(void* memory, size_t bytes);

// The most this process has held at once, without what CUDA itself takes.
size_t gpu_peak_bytes();

}  // namespace reigen
