// Matrix products: C = alpha * op(A) op(B) + beta * C, always by a library (oneDNN, cuBLASLt).
//
// A backend may want weights in a form of its own (packed, quantised). The place for it is the
// `weight` of the linear functions below: replace that Tensor by a struct with the Tensor and a
// handle that the backend made when the weights were loaded (model/weights.h), and make the linear
// functions operations of the backend (backend.h); matmul() stays for plain matrices.
#pragma once

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

enum class Transpose : bool { kNo, kYes };

void matmul(const Device& device, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
            float alpha = 1, float beta = 0);

// The three products of a linear layer with weight [out, in].
void linear_forward(const Device& device, Tensor x, Tensor weight, Tensor y);
void linear_backward_input(const Device& device, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate);
void linear_backward_weight(const Device& device, Tensor dy, Tensor x, Tensor dweight);  // adds

}  // namespace reigen
