// ops/gpu_backend.h through the loaded CUDA library.
#include "base/error.h"
#include "base/format.h"
#include "device/loaded/cuda_library.h"
#include "ops/gpu_backend.h"
#include "ops/gpu_entry.h"

namespace reigen {

Device open_gpu(int index) {
  const CudaLibrary& library = CudaLibrary::get();
  const auto open = library.find<decltype(reigen_cuda_open)>("reigen_cuda_open");
  if (open == nullptr) throw DeviceError(format("{}; or use --device cpu", library.missing()));
  std::optional<Device> device;
  open(index, &device);
  return *device;
}

}  // namespace reigen
