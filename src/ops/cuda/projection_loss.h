// ops/projection_loss.h on CUDA. It differs from the contract where that would make the host wait:
// targets are a device array, and the sums stay on the device, added to two doubles that are copied
// back when somebody wants to know. The gradient is multiplied by the context's settings and loss
// scale (step.h).
//
// Logits of a chunk are 16-bit, as a product leaves them, and are overwritten by their own
// gradient. A chunk costs one pass over dtable in fp32 (31 us at base size), so chunks want to be
// thousands of tokens: 5,400 tokens of 32,768 pieces are 350 MB.
#pragma once

#include <cstdint>

#include "ops/cuda/context.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

struct ProjectionLoss {
  Tensor hidden;                      // [tokens, d]
  Tensor table;                       // [vocabulary, d], the compute copy
  const uint32_t* targets = nullptr;  // device; kNoToken (embed.h) counts for nothing
  float smoothing = 0;
  Tensor logits;            // scratch [chunk tokens, vocabulary], stride a multiple of 8
  Tensor dhidden;           // out; empty to evaluate only
  Tensor dtable;            // fp32, added to; empty to evaluate only
  double* sums = nullptr;   // device: smoothed, nll; added to
  float* losses = nullptr;  // device: [tokens, 2] for each token, scratch or of interest
};

void projection_loss(const Context& context, const ProjectionLoss& op);

}  // namespace reigen::cuda
