#include "ops/matmul.h"

namespace reigen {

void linear_forward(const Device& device, Tensor x, const LinearWeight& weight, Tensor y) {
  if (weight.packed != nullptr) return packed_product(device, x, *weight.packed, y);
  matmul(device, x, Transpose::kNo, weight.values, Transpose::kYes, y);
}

void linear_backward_input(const Device& device, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate) {
  matmul(device, dy, Transpose::kNo, weight, Transpose::kNo, dx, 1, accumulate ? 1 : 0);
}

void linear_backward_weight(const Device& device, Tensor dy, Tensor x, Tensor dweight) {
  matmul(device, dy, Transpose::kYes, x, Transpose::kNo, dweight, 1, 1);
}

}  // namespace reigen
