// What every CUDA operation is handed: the stream it runs on, scratch memory, the matrix products,
// the sums over tokens that are still to be added up, and the settings of the step.
//
// All operations of a context share one stream, so one scratch buffer serves them all: an operation
// uses it from the start, and nothing in it outlives the operation. A second context runs beside
// the first, with scratch and workspace of its own.
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

  explicit Context(Stream::Priority priority = Stream::Priority::kHigh);
  ~Context();

  cudaStream_t stream() const { return stream_.get(); }
  const Stream& queue() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  Matmul& matmul() const { return *matmul_; }
  ColumnSums& sums() const { return *sums_; }

  // Gradients of gains, shifts and biases are complete only after this (see column_sums.h): call it
  // when a layer's backward is done, before its gradients are used.
  void settle() const;

  // Device memory (see step.h). What set_step and set_control write is seen by everything enqueued
  // after them; the host does not wait.
  const StepSettings* settings() const { return &step_.as<StepMemory>()->settings; }
  StepControl* control() const { return &step_.as<StepMemory>()->control; }
  void set_step(const StepSettings& settings) const;
  void set_control(const StepControl& control) const;
  StepControl read_control() const;  // waits for everything enqueued so far

  // The start of the scratch buffer. It grows when an operation wants more than any before, which
  // waits for the GPU once.
  void* scratch(size_t bytes) const;

 private:
  struct StepMemory {
    StepSettings settings;
    StepControl control;
  };

  Stream stream_;
  int multiprocessors_;
  mutable DeviceMemory scratch_;
  DeviceMemory step_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<ColumnSums> sums_;
};

}  // namespace reigen::cuda
