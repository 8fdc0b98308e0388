// device/cuda_info.h through the loaded CUDA library.
#include "device/cuda_info.h"

#include <filesystem>

#include "device/cuda_entry.h"
#include "device/loaded/cuda_library.h"

namespace reigen {

std::string describe_cuda() {
  const CudaLibrary& library = CudaLibrary::get();
  const auto describe = library.find<decltype(reigen_cuda_describe)>("reigen_cuda_describe");
  if (describe == nullptr) return library.missing();
  std::string text;
  describe(&text);
  return text;
}

int usable_gpus() {
  const auto count =
      CudaLibrary::get().find<decltype(reigen_cuda_usable_gpus)>("reigen_cuda_usable_gpus");
  return count == nullptr ? 0 : count();
}

std::string why_gpu_unused() {
  constexpr const char* kDriver = "/dev/nvidiactl";
  const std::string& missing = CudaLibrary::get().missing();
  return std::filesystem::exists(kDriver) ? missing : "";
}

}  // namespace reigen
