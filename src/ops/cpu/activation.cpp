// ops/activation.h on the CPU: a share of the rows for each thread, kernels in row_kernels.cpp.
#include "ops/activation.h"

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/partial_sums.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kActivationGrain = 16;  // rows

}  // namespace

size_t CpuBackend::activation_mask_bytes(const Device&, ActivationKind, int64_t, int64_t) {
  return 0;
}

void CpuBackend::activation_forward(const Device& device, const Activation& op) {
  parallel_for(device, op.z.rows, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      activation_row_forward(op.kind, op.z.row(r), op.bias.row(0), row_dropout(op.dropout, r),
                             op.out.row(r), static_cast<size_t>(op.z.cols));
    }
  });
}

void CpuBackend::activation_backward(const Device& device, const Activation& op, Tensor dout,
                                     Tensor dz, Tensor dbias) {
  PartialSums sums(parallel_parts(device, dout.rows, kActivationGrain), {dbias});
  parallel_for(device, dout.rows, kActivationGrain, [&](int64_t begin, int64_t end, int part) {
    for (int64_t r = begin; r < end; ++r) {
      activation_row_backward(op.kind, op.z.row(r), op.bias.row(0), row_dropout(op.dropout, r),
                              dout.row(r), dz.row(r), sums.row(part, 0),
                              static_cast<size_t>(op.z.cols));
    }
  });
  sums.add_to_targets();
}

void CpuBackend::add_bias(const Device& device, Tensor y, Tensor bias) {
  parallel_for(device, y.rows, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      add_row(bias.row(0), y.row(r), static_cast<size_t>(y.cols));
    }
  });
}

void CpuBackend::bias_backward(const Device& device, Tensor dy, Tensor dbias) {
  PartialSums sums(parallel_parts(device, dy.rows, kActivationGrain), {dbias});
  parallel_for(device, dy.rows, kActivationGrain, [&](int64_t begin, int64_t end, int part) {
    for (int64_t r = begin; r < end; ++r) {
      add_row(dy.row(r), sums.row(part, 0), static_cast<size_t>(dy.cols));
    }
  });
  sums.add_to_targets();
}

}  // namespace reigen::cpu
