// What every CUDA operation is handed: the stream it runs on, scratch memory, the matrix products.
//
// All operations of a step share one stream, so one scratch buffer serves them all: an operation
// uses it from the start, and nothing in it outlives the operation.
#pragma once

#include <cstddef>
#include <memory>

#include "device/cuda/runtime.h"

namespace reigen::cuda {

class Matmul;

class Context {
 public:
  // 32 MiB hold the partial sums of the widest seam and embedding of the presets many times over.
  static constexpr size_t kScratchBytes = size_t{32} << 20;

  Context();
  ~Context();

  cudaStream_t stream() const { return stream_.get(); }
  const Stream& queue() const { return stream_; }
  int multiprocessors() const { return multiprocessors_; }
  Matmul& matmul() const { return *matmul_; }

  // The start of the scratch buffer; throws DeviceError if `bytes` is more than there is.
  void* scratch(size_t bytes) const;

 private:
  Stream stream_;
  int multiprocessors_;
  DeviceMemory scratch_;
  std::unique_ptr<Matmul> matmul_;
};

}  // namespace reigen::cuda
