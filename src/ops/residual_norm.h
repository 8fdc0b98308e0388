// The connection of two sublayers: h = x + dropout(branch + bias), n = norm(h) * gain + shift.
//
// In a pre-norm model the next sublayer reads n and the next connection adds to h; in a post-norm
// model both read n. Without a branch it is a plain layer norm of x.
#pragma once

#include "device/device.h"
#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace reigen {

struct ResidualNorm {
  Tensor x;       // [tokens, d]
  Tensor branch;  // [tokens, d], or empty
  Tensor bias;    // [1, d] added to the branch, or empty
  Tensor gain;    // [1, d]
  Tensor shift;   // [1, d]
  Dropout dropout;
  Tensor h;      // out: the sum; may be x itself; unused without a branch
  Tensor n;      // out: the norm of h; may be x where h is not
  Tensor stats;  // out: [tokens, 2] mean and 1 / standard deviation, for backward
};

void residual_norm_forward(const Device& device, const ResidualNorm& op);

struct ResidualNormGrad {
  Tensor dn;       // gradient of n
  Tensor dh;       // gradient of h from the residual path, or empty
  Tensor dx;       // out; may be dh itself
  Tensor dbranch;  // out; empty when there was no branch
  Tensor dgain;    // added to, as the next two; see complete_gradients()
  Tensor dshift;
  Tensor dbias;  // or empty
};

// Reads op.h (op.x without a branch), op.gain, op.stats, op.dropout.
void residual_norm_backward(const Device& device, const ResidualNorm& op,
                            const ResidualNormGrad& grad);

// A backend may delay the sums over tokens behind the gradients of gains, shifts and biases (here
// and in activation.h), to add up those of several operations at once. Call this before they are
// read.
void complete_gradients(const Device& device);

}  // namespace reigen
