// Muon (Jordan et al. 2024) over flat buffers in device memory: momentum, then each hidden matrix's
// update is orthogonalised by Newton-Schulz iterations, which bring its singular values close to 1.
//
// With G the gradient times gradient_scale, M the momentum and W the parameters of one matrix:
//
//   M <- mu M + (1 - mu) G
//   U  = mu M + (1 - mu) G                     Nesterov; the factor 1 - mu cancels in X
//   X  = U / ||U||                             Frobenius norm; 0 where U is 0
//   five times: A = X X', X <- a X + (b A + c A A) X
//   W <- (1 - rate * weight_decay) W - rate * 0.2 sqrt(max(rows, cols)) X
//
// For a matrix with more rows than columns A = X' X is the smaller product, and X <- a X + X (b A +
// c A A): the same numbers as for its transpose. The factor 0.2 sqrt(max(rows, cols)) gives the
// update the root mean square that Adam's usually has (Liu et al. 2025), so that both need rates of
// the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// A matrix in a flat buffer, by rows without gaps.
struct MatrixRange {
  size_t offset = 0;  // in elements
  int64_t rows = 0;
  int64_t cols = 0;

  size_t size() const { return static_cast<size_t>(rows * cols); }
  size_t end() const { return offset + size(); }
};

// Elements [begin, end) of a flat buffer.
struct ElementRange {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Hidden matrices, and the elements between them, which Adam updates; both by rising offset.
struct MuonPlan {
  std::vector<MatrixRange> matrices;
  std::vector<ElementRange> rest;
};

// The quintic polynomial of Jordan et al., which raises small singular values in few iterations;
// those of the result lie between about 0.7 and 1.2, which is close enough to 1 for training.
inline constexpr int kNewtonSchulzSteps = 5;
inline constexpr double kNewtonSchulzA = 3.4445;
inline constexpr double kNewtonSchulzB = -4.7750;
inline constexpr double kNewtonSchulzC = 2.0315;

// On a GPU, matrices of one shape are updated together up to this many elements, and in several
// batches beyond.
inline constexpr size_t kMuonBatchElements = size_t{32} << 20;
// Batches that run beside each other: the last blocks of one leave room for those of the next.
inline constexpr size_t kMuonLanes = 3;

// The most memory that the iterations need on a GPU, and on the CPU.
size_t muon_scratch_bytes(std::span<const MatrixRange> matrices, DType type);
size_t muon_cpu_scratch_bytes(std::span<const MatrixRange> matrices, int threads);

// Factor of the orthogonalised update of a matrix.
double muon_scale(int64_t rows, int64_t cols);

struct MuonStep {
  double rate = 2e-3;
  double momentum = 0.95;
  double weight_decay = 0.01;    // decoupled
  double gradient_scale = 1;     // factor of the gradient: clipping
  DType products = DType::kF32;  // type of the iterations on a GPU; on the CPU its backend's
  bool timed = true;  // on a GPU: the fastest algorithm; false: the library's first choice
};

void muon_step(const Device& device, const MuonStep& options, std::span<const MatrixRange> matrices,
               std::span<const float> gradient, std::span<float> parameters,
               std::span<float> momentum);

}  // namespace reigen
