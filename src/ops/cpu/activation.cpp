#include "ops/activation.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/partial_sums.h"
#include "ops/gpu_ops.h"

namespace reigen {
namespace {

constexpr int64_t kActivationGrain = 16;  // rows

}  // namespace

size_t activation_mask_bytes(const Device& device, ActivationKind kind, int64_t rows,
                             int64_t cols) {
  if (device.kind() == DeviceKind::kCpu || kind != ActivationKind::kRelu) return 0;
  return static_cast<size_t>(rows * cols / 8);
}

void activation_forward(const Device& device, const Activation& op) {
  if (GpuOps* gpu = device.gpu()) return gpu->activation_forward(op);
  parallel_for(device, op.z.rows, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      cpu::activation_row_forward(op.kind, op.z.row(r), op.bias.row(0),
                                  cpu::row_dropout(op.dropout, r), op.out.row(r),
                                  static_cast<size_t>(op.z.cols));
    }
  });
}

void activation_backward(const Device& device, const Activation& op, Tensor dout, Tensor dz,
                         Tensor dbias) {
  if (GpuOps* gpu = device.gpu()) return gpu->activation_backward(op, dout, dz, dbias);
  cpu::PartialSums sums(parallel_parts(device, dout.rows, kActivationGrain), {dbias});
  parallel_for(device, dout.rows, kActivationGrain, [&](int64_t begin, int64_t end, int part) {
    for (int64_t r = begin; r < end; ++r) {
      cpu::activation_row_backward(op.kind, op.z.row(r), op.bias.row(0),
                                   cpu::row_dropout(op.dropout, r), dout.row(r), dz.row(r),
                                   sums.row(part, 0), static_cast<size_t>(op.z.cols));
    }
  });
  sums.add_to_targets();
}

void add_bias(const Device& device, Tensor y, Tensor bias) {
  if (GpuOps* gpu = device.gpu()) return gpu->add_bias(y, bias);
  parallel_for(device, y.rows, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      cpu::add_row(bias.row(0), y.row(r), static_cast<size_t>(y.cols));
    }
  });
}

void bias_backward(const Device& device, Tensor dy, Tensor dbias) {
  if (GpuOps* gpu = device.gpu()) return gpu->bias_backward(dy, dbias);
  cpu::PartialSums sums(parallel_parts(device, dy.rows, kActivationGrain), {dbias});
  parallel_for(device, dy.rows, kActivationGrain, [&](int64_t begin, int64_t end, int part) {
    for (int64_t r = begin; r < end; ++r) {
      cpu::add_row(dy.row(r), sums.row(part, 0), static_cast<size_t>(dy.cols));
    }
  });
  sums.add_to_targets();
}

}  // namespace reigen
