// Plain strings rather than fmt: nvcc cannot evaluate fmt's compile-time checks.
#include "device/cuda_info.h"

#include <cuda_runtime_api.h>

namespace reigen {
namespace {

std::string version_of(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string describe_gpu(int index) {
  cudaDeviceProp gpu;
  cudaError_t error = cudaGetDeviceProperties(&gpu, index);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return std::string(gpu.name) + " (" + std::to_string(gpu.totalGlobalMem >> 30) + " GiB, sm_" +
         std::to_string(gpu.major) + std::to_string(gpu.minor) + ")";
}

}  // namespace

std::string describe_cuda() {
  int runtime = 0;
  int driver = 0;
  cudaRuntimeGetVersion(&runtime);
  std::string text = version_of(runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return text + ", no driver found";
  text += ", driver " + version_of(driver);
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return text + ", no GPU (" + cudaGetErrorString(error) + ")";
  text += ", " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
  for (int i = 0; i < count; ++i) text += (i == 0 ? ": " : ", ") + describe_gpu(i);
  return text;
}

std::string why_gpu_unused() { return ""; }  // describe_cuda() says it

int usable_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // the error is handled here
  return 0;
}

}  // namespace reigen
