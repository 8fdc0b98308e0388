// Services of a GPU backend beside the operations: opening it, the queue of training steps, the
// precision and the algorithms of its matrix products.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/gpu.h"
#include "ops/gpu_search.h"
#include "ops/gpu_step.h"
#include "tensor/tensor.h"

namespace reigen {

class GpuBackend {
 public:
  virtual ~GpuBackend() = default;

  virtual std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) = 0;

  // Beam search with its state on the GPU.
  virtual std::unique_ptr<GpuSearch> search(const GpuSearchShape& shape) = 0;

  // Parameters to the compute copy that products read.
  virtual void convert(std::span<const float> from, void* to, DType type) = 0;

  virtual void allow_tf32(bool allow) = 0;  // in products of fp32 matrices

  // Off: products of shapes not seen before use the library's first choice instead of the fastest
  // of several timed ones, and are not recorded.
  virtual void time_algorithms(bool time) = 0;

  // The algorithms chosen so far, as text, and their reuse: the same choices give the same bits.
  // replay_algorithms() returns false for a record of a different GPU or library version.
  virtual std::string recorded_algorithms() const = 0;
  virtual bool replay_algorithms(const std::string& record) = 0;
};

// Null on the CPU.
GpuBackend* gpu_backend(const Device& device);

// GPU number `index`. Throws DeviceError when there is none, or the CUDA part is not installed.
Device open_gpu(int index);

}  // namespace reigen
