// device/gpu_memory.h through the loaded CUDA library.
#include "device/gpu_memory.h"

#include "base/error.h"
#include "device/cuda_entry.h"
#include "device/loaded/cuda_library.h"

namespace reigen {

void* gpu_allocate(size_t bytes, const char* what) {
  const CudaLibrary& library = CudaLibrary::get();
  const auto allocate = library.find<decltype(reigen_cuda_allocate)>("reigen_cuda_allocate");
  if (allocate == nullptr) throw DeviceError(library.missing());
  return allocate(bytes, what);
}

void gpu_free(void* memory, size_t bytes) {
  const auto free = CudaLibrary::get().find<decltype(reigen_cuda_free)>("reigen_cuda_free");
  if (free != nullptr) free(memory, bytes);
}

size_t gpu_peak_bytes() {
  const auto peak =
      CudaLibrary::get().find<decltype(reigen_cuda_peak_bytes)>("reigen_cuda_peak_bytes");
  return peak == nullptr ? 0 : peak();
}

}  // namespace reigen
