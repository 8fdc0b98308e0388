// Part of libreigen_cuda.so only; REIGEN_BUILD comes from CMake.
#include "device/cuda_entry.h"

#include "device/cuda_info.h"
#include "device/gpu_memory.h"

const char* reigen_cuda_build() { return REIGEN_BUILD; }

void reigen_cuda_describe(std::string* text) { *text = reigen::describe_cuda(); }

int reigen_cuda_usable_gpus() { return reigen::usable_gpus(); }

void* reigen_cuda_allocate(size_t bytes, const char* what) {
  return reigen::gpu_allocate(bytes, what);
}

void reigen_cuda_free(void* memory, size_t bytes) { reigen::gpu_free(memory, bytes); }

size_t reigen_cuda_peak_bytes() { return reigen::gpu_peak_bytes(); }
