// One matrix after the other; the products use all threads. Sums do not depend on the number of
// threads.
#include "ops/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kMuonGrain = 1 << 14;  // elements

// Memory for the largest matrix.
struct MuonScratch {
  explicit MuonScratch(std::span<const MatrixRange> matrices) {
    size_t most = 0;
    size_t most_gram = 0;
    for (const MatrixRange& m : matrices) {
      const auto side = static_cast<size_t>(std::min(m.rows, m.cols));
      most = std::max(most, m.size());
      most_gram = std::max(most_gram, side * side);
    }
    for (auto* buffer : {&x, &next}) buffer->resize(most);
    for (auto* buffer : {&gram, &polynomial}) buffer->resize(most_gram);
  }
  std::vector<float> x;
  std::vector<float> next;
  std::vector<float> gram;
  std::vector<float> polynomial;  // b A + c A A
};

// In fp32 with every backend, as all of the optimizer on a CPU.
//
// Newton-Schulz: `x`, of norm 1, keeps its singular vectors, and its singular values come near 1.
void orthogonalise(const Device& device, int64_t rows, int64_t cols, MuonScratch& scratch) {
  const bool tall = rows > cols;
  const int64_t side = std::min(rows, cols);
  const Tensor gram = f32_matrix(scratch.gram.data(), side, side);
  const Tensor polynomial = f32_matrix(scratch.polynomial.data(), side, side);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    const Tensor x = f32_matrix(scratch.x.data(), rows, cols);
    const Tensor next = f32_matrix(scratch.next.data(), rows, cols);
    cpu_backend().matmul(device, x, Transpose(tall), x, Transpose(!tall), gram, 1, 0);
    std::copy_n(scratch.gram.begin(), side * side, scratch.polynomial.begin());
    cpu_backend().matmul(device, gram, Transpose::kNo, gram, Transpose::kNo, polynomial,
                         static_cast<float>(kNewtonSchulzC), static_cast<float>(kNewtonSchulzB));
    std::copy_n(scratch.x.begin(), rows * cols, scratch.next.begin());
    const Tensor& left = tall ? x : polynomial;
    const Tensor& right = tall ? polynomial : x;
    cpu_backend().matmul(device, left, Transpose::kNo, right, Transpose::kNo, next, 1,
                         static_cast<float>(kNewtonSchulzA));
    scratch.x.swap(scratch.next);
  }
}

// The momentum, and its Nesterov form in `x`.
void add_to_momentum(const MuonStep& options, const float* gradient, float* momentum, float* x,
                     int64_t count) {
  const auto mu = static_cast<float>(options.momentum);
  const auto fresh = static_cast<float>((1 - options.momentum) * options.gradient_scale);
  for (int64_t i = 0; i < count; ++i) {
    const float g = fresh * gradient[i];
    const float m = mu * momentum[i] + g;
    momentum[i] = m;
    x[i] = mu * m + g;
  }
}

}  // namespace

void CpuBackend::muon_step(const Device& device, const MuonStep& options,
                           std::span<const MatrixRange> matrices, std::span<const float> gradient,
                           std::span<float> parameters, std::span<float> momentum) {
  MuonScratch scratch(matrices);
  const auto keep = static_cast<float>(1 - options.rate * options.weight_decay);
  for (const MatrixRange& m : matrices) {
    const auto count = static_cast<int64_t>(m.size());
    parallel_for(device, count, kMuonGrain, [&](int64_t begin, int64_t end, int) {
      const auto at = m.offset + static_cast<size_t>(begin);
      add_to_momentum(options, gradient.data() + at, momentum.data() + at, scratch.x.data() + begin,
                      end - begin);
    });
    const double norm = std::sqrt(sum_of_squares(scratch.x.data(), m.size()));
    const auto to_one = static_cast<float>(norm > 0 ? 1 / norm : 0);
    for (size_t i = 0; i < m.size(); ++i) scratch.x[i] *= to_one;
    orthogonalise(device, m.rows, m.cols, scratch);
    const auto rate = static_cast<float>(options.rate * muon_scale(m.rows, m.cols));
    parallel_for(device, count, kMuonGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float& w = parameters[m.offset + static_cast<size_t>(i)];
        w = keep * w - rate * scratch.x[static_cast<size_t>(i)];
      }
    });
  }
}

}  // namespace reigen::cpu
