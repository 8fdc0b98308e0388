// The CUDA backend. Each operation is defined in the file of its kernels in this folder; shapes and
// types that a kernel does not support throw DeviceError there.
//
// Beyond the contracts: widths are multiples of 8. Matrices are fp32, bf16 or fp16; gains, shifts,
// biases and gradients of parameters are fp32, straight from and to the master weights.
#pragma once

#include <memory>

#include "ops/backend.h"
#include "ops/cuda/batch_slots.h"
#include "ops/cuda/gpu.h"
#include "ops/gpu_backend.h"

namespace reigen::cuda {

class CudaBackend : public Backend, public GpuBackend {
 public:
  explicit CudaBackend(std::shared_ptr<CudaGpu> gpu);

  REIGEN_OPERATIONS(REIGEN_OVERRIDE_OPERATION)

  GpuBackend* gpu() override { return this; }
  std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) override;
  std::unique_ptr<GpuSearch> search(const GpuSearchShape& shape) override;
  void convert(std::span<const float> from, void* to, DType type) override;
  void allow_tf32(bool allow) override;
  void time_algorithms(bool time) override;
  std::string recorded_algorithms() const override;
  bool replay_algorithms(const std::string& record) override;

 private:
  std::shared_ptr<CudaGpu> gpu_;
  const Context& context_;
  BatchSlots slots_;
  DeviceMemory loss_sums_;
  DeviceMemory step_;  // a StepMemory for updates outside a step queue
  DeviceMemory tops_;  // of a beam step: candidates, then log-sums
  PinnedMemory tops_host_;
};

}  // namespace reigen::cuda
