// The seam between two sublayers: h = x + dropout(branch + bias), n = norm(h) * gain + shift.
//
// In a pre-norm model the next sublayer reads n and the next seam adds to h; in a post-norm model
// both take n. Without a branch it is a plain layer norm of x.
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
  Tensor n;      // out: the norm of it; may be x where h is not
  Tensor stats;  // out: [tokens, 2] mean and 1 / standard deviation, for backward
};

void residual_norm_forward(const Device& device, const ResidualNorm& op);

struct ResidualNormGrad {
  Tensor dn;       // gradient of n
  Tensor dh;       // gradient of h from the residual path, or empty
  Tensor dx;       // out; may be dh itself
  Tensor dbranch;  // out; empty when there was no branch
  Tensor dgain;    // the rest are added to
  Tensor dshift;
  Tensor dbias;  // or empty
};

// Reads op.h (op.x without a branch), op.gain, op.stats, op.dropout.
void residual_norm_backward(const Device& device, const ResidualNorm& op,
                            const ResidualNormGrad& grad);

// Gradients of gains, shifts and biases (here and in activation.h) are complete only after this: a
// GPU adds their sums over tokens up once for several operations.
void settle_gradients(const Device& device);

}  // namespace reigen
