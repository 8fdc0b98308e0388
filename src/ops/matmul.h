// Matrix products: C = alpha * op(A) op(B) + beta * C, by a library (oneDNN, cuBLASLt),
// but on a CPU in bf16 by our own kernels.
#pragma once

#include "device/device.h"
#include "ops/packed_weight.h"
#include "tensor/tensor.h"

namespace reigen {

enum class Transpose : bool { kNo, kYes };

void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
            float alpha = 1, float beta = 0);

// A weight [out, in], and the backend's own form of it where there is one.
struct LinearWeight {
  LinearWeight(Tensor weight, const PackedWeight* form = nullptr) : values(weight), packed(form) {}
  Tensor values;
  const PackedWeight* packed;
};

// The three products of a linear layer with weight [out, in].
void linear_forward(const Device& device, Tensor x, const LinearWeight& weight, Tensor y);
void linear_backward_input(const Device& device, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate);
void linear_backward_weight(const Device& device, Tensor dy, Tensor x, Tensor dweight);  // adds

}  // namespace reigen
