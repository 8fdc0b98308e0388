// device/gpu_memory.h where the CUDA backend is in the program or its library.
#include "device/gpu_memory.h"

#include "device/cuda/runtime.h"

namespace reigen {

void* gpu_allocate(size_t bytes, const char* what) {
  return cuda::DeviceMemory(bytes, what).release();
}

void gpu_free(void* memory, size_t bytes) { cuda::DeviceMemory::adopt(memory, bytes); }

size_t gpu_peak_bytes() { return cuda::DeviceMemory::peak_bytes(); }

}  // namespace reigen
