#include "ops/muon.h"

#include <algorithm>
#include <cmath>

namespace reigen {

double muon_scale(int64_t rows, int64_t cols) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
}

// Two copies of each batch in flight, and two products that are no larger.
size_t muon_scratch_bytes(std::span<const MatrixRange> matrices, DType type) {
  if (matrices.empty()) return 0;
  size_t all = 0;
  size_t largest = 0;
  for (const MatrixRange& m : matrices) {
    all += m.size();
    largest = std::max(largest, m.size());
  }
  constexpr size_t kWorkspaces = (kMuonLanes - 1) * (size_t{64} << 20);  // of their products
  const size_t in_flight = std::min(all, kMuonLanes * std::max(kMuonBatchElements, largest));
  return kWorkspaces + 4 * size_of(type) * in_flight;
}

// Of each thread: two copies of the largest matrix, two products that are no larger, and in bf16
// the matrix in tiles.
size_t muon_cpu_scratch_bytes(std::span<const MatrixRange> matrices, int threads) {
  size_t copies = 0;
  size_t products = 0;
  for (const MatrixRange& m : matrices) {
    const auto side = static_cast<size_t>(std::min(m.rows, m.cols));
    copies = std::max(copies, m.size());
    products = std::max(products, side * side);
  }
  return static_cast<size_t>(threads) *
         (2 * sizeof(float) * (copies + products) + sizeof(uint16_t) * copies);
}

}  // namespace reigen
