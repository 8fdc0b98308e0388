// Part of libreigen_cuda.so only.
#include "ops/gpu_backend.h"
#include "ops/gpu_entry.h"

void reigen_cuda_open(int index, std::optional<reigen::Device>* device) {
  *device = reigen::open_gpu(index);
}
