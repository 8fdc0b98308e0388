// Matrices are updated beside each other, each by one thread, so that sums do not depend on the
// number of threads, and the steps between the products find their numbers in the thread's cache.
#include "ops/muon.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

// A thread's memory for the largest matrix that it has had.
struct MuonScratch {
  void make_room(const MatrixRange& m) {
    const auto side = static_cast<size_t>(std::min(m.rows, m.cols));
    for (auto* buffer : {&x, &next}) buffer->resize(std::max(buffer->size(), m.size()));
    for (auto* buffer : {&gram, &polynomial}) {
      buffer->resize(std::max(buffer->size(), side * side));
    }
  }
  std::vector<float> x;
  std::vector<float> next;
  std::vector<float> gram;
  std::vector<float> polynomial;  // b A + c A A
};

// Newton-Schulz: `x`, of norm 1, keeps its singular vectors, and its singular values come near 1.
void orthogonalise(CpuBackend& backend, const Device& device, int64_t rows, int64_t cols,
                   MuonScratch& scratch) {
  const bool tall = rows > cols;
  const int64_t side = std::min(rows, cols);
  const Tensor gram = f32_matrix(scratch.gram.data(), side, side);
  const Tensor polynomial = f32_matrix(scratch.polynomial.data(), side, side);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    const Tensor x = f32_matrix(scratch.x.data(), rows, cols);
    const Tensor next = f32_matrix(scratch.next.data(), rows, cols);
    backend.gram(device, x, Transpose(tall), gram);
    backend.gram(device, gram, Transpose::kNo, polynomial);  // A is symmetric: A A = A A'
    for (size_t at = 0; at < static_cast<size_t>(side * side); ++at) {
      scratch.polynomial[at] = static_cast<float>(kNewtonSchulzB) * scratch.gram[at] +
                               static_cast<float>(kNewtonSchulzC) * scratch.polynomial[at];
    }
    std::copy_n(scratch.x.begin(), rows * cols, scratch.next.begin());
    const Tensor& left = tall ? x : polynomial;
    const Tensor& right = tall ? polynomial : x;
    backend.matmul(device, left, Transpose::kNo, right, Transpose::kNo, next, 1,
                   static_cast<float>(kNewtonSchulzA));
    scratch.x.swap(scratch.next);
  }
}

// The momentum, and its Nesterov form in `x`.
void add_to_momentum(const MuonStep& options, const float* gradient, float* momentum, float* x,
                     size_t count) {
  const auto mu = static_cast<float>(options.momentum);
  const auto fresh = static_cast<float>((1 - options.momentum) * options.gradient_scale);
  for (size_t i = 0; i < count; ++i) {
    const float g = fresh * gradient[i];
    const float m = mu * momentum[i] + g;
    momentum[i] = m;
    x[i] = mu * m + g;
  }
}

// The order in which threads take matrices: the ones that take longest first.
std::vector<size_t> longest_first(std::span<const MatrixRange> matrices) {
  std::vector<size_t> order;
  for (size_t i = 0; i < matrices.size(); ++i) order.push_back(i);
  const auto cost = [&](size_t i) {
    const MatrixRange& m = matrices[i];
    return std::min(m.rows, m.cols) * m.rows * m.cols;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return cost(a) > cost(b); });
  return order;
}

}  // namespace

void CpuBackend::gram(const Device& device, Tensor x, Transpose t, Tensor c) {
  const bool transposed = t == Transpose::kYes;
  CpuBackend::matmul(device, x, t, x, Transpose(!transposed), c, 1, 0);
}

void CpuBackend::muon_step(const Device& device, const MuonStep& options,
                           std::span<const MatrixRange> matrices, std::span<const float> gradient,
                           std::span<float> parameters, std::span<float> momentum) {
  const auto keep = static_cast<float>(1 - options.rate * options.weight_decay);
  const auto update = [&](const MatrixRange& m, MuonScratch& scratch) {
    scratch.make_room(m);
    add_to_momentum(options, gradient.data() + m.offset, momentum.data() + m.offset,
                    scratch.x.data(), m.size());
    const double norm = std::sqrt(sum_of_squares(scratch.x.data(), m.size()));
    const auto to_one = static_cast<float>(norm > 0 ? 1 / norm : 0);
    for (size_t i = 0; i < m.size(); ++i) scratch.x[i] *= to_one;
    orthogonalise(*this, device, m.rows, m.cols, scratch);
    const auto rate = static_cast<float>(options.rate * muon_scale(m.rows, m.cols));
    float* w = parameters.data() + m.offset;
    for (size_t i = 0; i < m.size(); ++i) w[i] = keep * w[i] - rate * scratch.x[i];
  };
  const std::vector<size_t> order = longest_first(matrices);
  std::atomic<size_t> next = 0;
  parallel_for(device, device.threads(), 1, [&](int64_t, int64_t, int) {
    thread_local MuonScratch scratch;
    for (size_t i = next++; i < order.size(); i = next++) update(matrices[order[i]], scratch);
  });
}

}  // namespace reigen::cpu
