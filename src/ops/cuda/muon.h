// Muon's update on CUDA (ops/muon.h): matrices of one shape are a batch, the iterations are batched
// products in the type of the compute copy with sums in fp32, and the host never waits.
//
// An iteration is three products, because cuBLASLt adds a matrix to a product in the same pass:
// A = X X', B = c A A + b A, X <- B X + a X. Three kernels do the rest. Their traffic per
// parameter, where the products are in 16 bits: momentum and norms 14 bytes (18 when it clears the
// gradient), the division by the norm 4, the update of parameters and compute copy 12.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/adam.h"
#include "ops/muon.h"

namespace reigen::cuda {

struct MuonSettings {
  DType products = DType::kBF16;  // of the compute copy, too
  double momentum = 0.95;
  bool timed = true;  // as in Product
};

class Muon {
 public:
  // Offsets and sizes of matrices are multiples of 8 elements.
  Muon(const Context& context, std::span<const MatrixRange> matrices, MuonSettings settings);

  // After decide_step, whose control it reads. With `clear`, it sets the gradient of the matrices
  // to 0, even when the step is skipped. Shapes run beside each other, and beside what is enqueued
  // on the context's stream between start() and finish().
  void start();
  void finish(const AdamBuffers& buffers, const StepMemory* step, bool clear);

 private:
  // Matrices of one shape that are updated together.
  struct Batch {
    int64_t rows = 0;
    int64_t cols = 0;
    size_t first = 0;  // in offsets_
    int64_t count = 0;
    size_t lane = 0;

    size_t elements() const { return static_cast<size_t>(count * rows * cols); }
    int64_t side() const { return rows < cols ? rows : cols; }
  };
  struct Scratch {
    void* x = nullptr;  // as the next, a batch of matrices
    void* next = nullptr;
    void* gram = nullptr;
    void* polynomial = nullptr;
    double* squares = nullptr;  // of each block
  };
  // Batches that run in order.
  struct Lane {
    size_t bytes = 0;
    DeviceMemory scratch;         // for its largest batch
    std::unique_ptr<Stream> own;  // null: the context's, as the workspace
    DeviceMemory workspace;       // of its products
    Event done;
  };
  cudaStream_t stream_of(const Batch& batch) const;
  size_t scratch_bytes(const Batch& batch) const;
  void run(const Batch& batch, const AdamBuffers& buffers, const StepMemory* step, bool clear);
  void orthogonalise(const Batch& batch, Scratch& scratch) const;

  const Context& context_;
  MuonSettings settings_;
  std::vector<Batch> batches_;
  DeviceMemory offsets_;  // of all matrices, in the order of batches
  std::vector<std::unique_ptr<Lane>> lanes_;
  Event decided_;
  bool chosen_ = false;  // the algorithms of all products
};

}  // namespace reigen::cuda
