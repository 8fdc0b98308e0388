#include "device/gpu_memory.h"

#include "device/cuda/runtime.h"

namespace reigen {

void* gpu_allocate(size_t bytes, const char* what) {
  return cuda::DeviceMemory(bytes, what).release();
}

void gpu_free(void* memory) { cudaFree(memory); }

}  // namespace reigen
