#include "ops/cuda/backend.h"

#include "base/error.h"
#include "ops/cuda/adam.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/step_queue.h"

namespace reigen::cuda {

CudaBackend::CudaBackend(std::shared_ptr<CudaGpu> gpu)
    : gpu_(std::move(gpu)),
      context_(gpu_->context()),
      slots_(context_.stream()),
      loss_sums_(sizeof(LossSums), "loss sums"),
      step_(sizeof(StepMemory), "step settings") {}

std::unique_ptr<BatchIndex> CudaBackend::index_batch(const Device&, const BatchTokens& tokens,
                                                     const IndexShape& shape) {
  gpu_->make_current();  // the calling thread may be new
  return slots_.index(tokens, shape);
}

void CudaBackend::use_batch(const Device&, const BatchIndex& index) { slots_.use(index); }

std::vector<const uint32_t*> CudaBackend::stage_lists(
    const Device&, std::span<const std::span<const uint32_t>> lists) {
  return slots_.stage(lists);
}

void CudaBackend::complete_gradients(const Device&) { context_.add_column_sums(); }

std::unique_ptr<GpuStepQueue> CudaBackend::step_queue(const GpuOptimizer& optimizer) {
  return std::make_unique<StepQueue>(context_, slots_, optimizer);
}

void CudaBackend::convert(std::span<const float> from, void* to, DType type) {
  cuda::convert(context_, from, to, type);
}

void CudaBackend::allow_tf32(bool allow) { context_.matmul().allow_tf32(allow); }
void CudaBackend::time_algorithms(bool time) { context_.matmul().time_algorithms(time); }

// A record is valid only on the same kind of chip.
std::string CudaBackend::recorded_algorithms() const {
  return gpu_->facts().name + "\n" + context_.matmul().record();
}

bool CudaBackend::replay_algorithms(const std::string& record) {
  const size_t line = record.find('\n');
  if (line == std::string::npos || record.substr(0, line) != gpu_->facts().name) return false;
  return context_.matmul().replay(record.substr(line + 1));
}

}  // namespace reigen::cuda

namespace reigen {

Device open_gpu(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw DeviceError(
        "no GPU can be used: " +
        std::string(error == cudaSuccess ? "this machine has none" : cudaGetErrorString(error)) +
        "; use --device cpu");
  }
  if (index >= count) {
    throw DeviceError("there is no GPU " + std::to_string(index) + "; this machine has " +
                      std::to_string(count) + ", counted from 0");
  }
  cuda::check(cudaSetDevice(index), "use the GPU");
  auto gpu = std::make_shared<cuda::CudaGpu>(index);
  return Device::gpu(gpu, std::make_shared<cuda::CudaBackend>(gpu));
}

}  // namespace reigen
