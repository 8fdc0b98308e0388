// ops/activation.h on CUDA: the same structs with device pointers; bias and dbias are fp32.
//
// For ReLU two things beyond the contract save memory and time. `out` may be `z` itself, because
// backward needs only which elements came through. And `mask`, when given, receives those as bits
// ([tokens, width / 8] bytes): a matrix product can then apply them as it writes (matmul.h, the
// kReluMask epilogue with alpha 1 / (1 - rate)), and activation_backward is not needed at all.
#pragma once

#include "ops/activation.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

void activation_forward(const Context& context, const Activation& op, uint8_t* mask = nullptr);

// For ReLU, reads op.out and not op.z; dz may be dout itself; dbias is added to.
void activation_backward(const Context& context, const Activation& op, Tensor dout, Tensor dz,
                         Tensor dbias);

void add_bias(const Context& context, Tensor y, Tensor bias);
void bias_backward(const Context& context, Tensor dy, Tensor dbias);  // adds

}  // namespace reigen::cuda
