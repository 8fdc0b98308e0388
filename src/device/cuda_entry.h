// The functions of libreigen_cuda.so that the program looks up by name
// (device/loaded/cuda_library.h).
//
// They lead to the functions of the same purpose in device/cuda_info.h, device/gpu_memory.h,
// ops/gpu_backend.h and dist/group/nccl_group.h. Everything else is reached through virtual
// functions. The library links nothing of the program: it finds reigen's own symbols in the program
// that loads it, which exports them (src/exported_symbols.txt).
#pragma once

#include <cstddef>
#include <string>

extern "C" {

// Program and library must come from the same commit: they share the layout of classes.
const char* reigen_cuda_build();

void reigen_cuda_describe(std::string* text);
int reigen_cuda_usable_gpus();
void* reigen_cuda_allocate(size_t bytes, const char* what);
void reigen_cuda_free(void* memory, size_t bytes);
size_t reigen_cuda_peak_bytes();
}
