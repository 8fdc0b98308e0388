// ops/residual_norm.h on the CPU: a share of the rows for each thread, kernels in row_kernels.cpp.
#include "ops/residual_norm.h"

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/partial_sums.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kNormGrain = 16;  // rows

NormRow row_of(const ResidualNorm& op, int64_t r) {
  NormRow row;
  row.n = static_cast<size_t>(op.x.cols);
  row.x = op.x.row(r);
  row.gain = op.gain.row(0);
  row.shift = op.shift.row(0);
  row.stats = op.stats.row(r);
  row.out = op.n.empty() ? nullptr : op.n.row(r);
  if (!op.branch.empty()) {
    row.branch = op.branch.row(r);
    row.h = op.h.row(r);
    row.bias = op.bias.empty() ? nullptr : op.bias.row(0);
    row.dropout = row_dropout(op.dropout, r);
  }
  return row;
}

}  // namespace

void CpuBackend::residual_norm_forward(const Device& device, const ResidualNorm& op) {
  parallel_for(device, op.x.rows, kNormGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) norm_row_forward(row_of(op, r));
  });
}

void CpuBackend::residual_norm_backward(const Device& device, const ResidualNorm& op,
                                        const ResidualNormGrad& grad) {
  const int64_t rows = grad.dn.rows;
  PartialSums sums(parallel_parts(device, rows, kNormGrain), {grad.dgain, grad.dshift, grad.dbias});
  parallel_for(device, rows, kNormGrain, [&](int64_t begin, int64_t end, int part) {
    for (int64_t r = begin; r < end; ++r) {
      NormRowGrad row;
      row.dn = grad.dn.row(r);
      row.dh = grad.dh.empty() ? nullptr : grad.dh.row(r);
      row.dx = grad.dx.row(r);
      row.dbranch = grad.dbranch.empty() ? nullptr : grad.dbranch.row(r);
      row.dgain = sums.row(part, 0);
      row.dshift = sums.row(part, 1);
      row.dbias = sums.row(part, 2);
      const float* h = op.branch.empty() ? op.x.row(r) : op.h.row(r);
      norm_row_backward(row_of(op, r), h, row);
    }
  });
  sums.add_to_targets();
}

void CpuBackend::complete_gradients(const Device&) {}  // no sum is delayed

}  // namespace reigen::cpu
