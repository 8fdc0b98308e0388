// ops/residual_norm.h on CUDA: the same structs, with device pointers.
//
// x, h, dh and dx share a type (the residual stream, 16-bit or fp32); branch, n and their gradients
// share one (16-bit or fp32). Gains, shifts and biases are fp32, straight from the master weights:
// they are too small for a compute copy to pay. Widths are multiples of 8, up to 2,048.
#pragma once

#include "ops/cuda/context.h"
#include "ops/residual_norm.h"

namespace reigen::cuda {

void residual_norm_forward(const Context& context, const ResidualNorm& op);
void residual_norm_backward(const Context& context, const ResidualNorm& op,
                            const ResidualNormGrad& grad);

}  // namespace reigen::cuda
