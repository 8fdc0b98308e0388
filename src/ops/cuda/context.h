// Shared by all CUDA operations of a GPU: their stream, scratch memory, the matrix products, the
// pending sums over tokens, and the settings of the step.
//
// All operations share one stream, so one scratch buffer serves them all: an operation uses it from
// the start, and nothing in it outlives the operation.
#pragma once

#include <cstddef>
#include <memory>

#include "device/cuda/runtime.h"
#include "ops/cuda/step.h"

namespace reigen::cuda {

class ColumnSums;
class Matmul;

class Context {
 public:
  // Embedding gradients and the norm of the gradient need a few MiB at most.
  static constexpr size_t kScratchBytes = size_t{32} << 20;

  Context();
  ~Context();

  cudaStream_t stream() const { return stream_.get(); }
  const Stream& queue() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  Matmul& matmul() const { return *matmul_; }
  ColumnSums& sums() const { return *sums_; }

  // Completes the pending gradients of gains, shifts and biases (see column_sums.h).
  void add_column_sums() const;

  // Device memory (see step.h). Values of set_step and set_control are seen by all work enqueued
  // after them; the host does not wait.
  StepMemory* step() const { return step_.as<StepMemory>(); }
  const StepSettings* settings() const { return &step()->settings; }
  StepControl* control() const { return &step()->control; }
  void set_step(const StepSettings& settings) const;
  void set_control(const StepControl& control) const;

  // The start of the scratch buffer. Growing it waits for the GPU once.
  void* scratch(size_t bytes) const;

 private:
  Stream stream_;
  int multiprocessors_;
  mutable DeviceMemory scratch_;
  DeviceMemory step_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<ColumnSums> sums_;
};

}  // namespace reigen::cuda
