// ops/activation.h on CUDA: the same structs with device pointers; bias and dbias are fp32.
//
// For ReLU two things beyond the contract save memory and time. `out` may be `z` itself, because
// backward needs only which elements came through. And `mask`, when given, receives those as bits
// ([tokens, width / 8] bytes), which backward then reads instead of `out`: 8.25 KiB a token at base
// size instead of 12. (A product could apply the mask as it writes, Epilogue::kReluMask in
// matmul.h, but cuBLASLt 13.0 has no fast kernel for it: 320 us instead of 67 + 50 on an H200.)
#pragma once

#include "ops/activation.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

void activation_forward(const Context& context, const Activation& op, uint8_t* mask = nullptr);

// For ReLU, reads the mask, or without one op.out, and not op.z; dz may be dout itself. dbias is
// added to when the context settles.
void activation_backward(const Context& context, const Activation& op, Tensor dout, Tensor dz,
                         Tensor dbias, const uint8_t* mask = nullptr);

void add_bias(const Context& context, Tensor y, Tensor bias);
void bias_backward(const Context& context, Tensor dy, Tensor dbias);  // adds, when it settles

}  // namespace reigen::cuda
