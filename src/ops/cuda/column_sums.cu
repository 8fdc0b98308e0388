#include "ops/cuda/column_sums.h"

#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kRows = 32;

// A block owns 32 columns; its 32 rows of threads walk the partial rows, then fold in a tree.
__global__ __launch_bounds__(kColumns* kRows) void column_sums_kernel(const float* partials,
                                                                      int parts,
                                                                      ColumnTargets targets) {
  __shared__ float sums[kRows][kColumns + 1];
  const int all = targets.targets * targets.width;
  const int column = static_cast<int>(blockIdx.x) * kColumns + static_cast<int>(threadIdx.x);
  float sum = 0;
  if (column < all) {
    for (int p = static_cast<int>(threadIdx.y); p < parts; p += kRows) {
      sum += partials[static_cast<int64_t>(p) * all + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const int mine = static_cast<int>(blockIdx.x) * kColumns + static_cast<int>(threadIdx.y);
  if (threadIdx.x == 0 && mine < all) {
    const int which = mine / targets.width;
    float* target = which == 0 ? targets.target[0] : which == 1 ? targets.target[1] : targets.target[2];
    if (target != nullptr) target[mine % targets.width] += total;
  }
}

}  // namespace

void add_column_sums(const Context& context, const float* partials, int parts,
                     const ColumnTargets& targets) {
  const int all = targets.targets * targets.width;
  const auto blocks = static_cast<unsigned>((all + kColumns - 1) / kColumns);
  column_sums_kernel<<<blocks, dim3(kColumns, kRows), 0, context.stream()>>>(partials, parts,
                                                                            targets);
  check_launch("column_sums");
}

}  // namespace reigen::cuda
