#include "ops/cuda/architecture.h"

#include "device/cuda/runtime.h"

namespace reigen::cuda {
namespace {

// Compiled for the same architectures as all other kernels.
__global__ void compiled_kernel() {}

}  // namespace

int kernel_architecture() {
  static const int architecture = [] {
    cudaFuncAttributes attributes = {};
    check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(compiled_kernel)),
          "read for which GPU its kernels were compiled");
    return attributes.ptxVersion;
  }();
  return architecture;
}

}  // namespace reigen::cuda
