// Projection onto the vocabulary, softmax and label-smoothed cross-entropy, forward and gradient in
// one pass over chunks of tokens: the logits of a whole batch never exist at once.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "ops/packed_weight.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace reigen {

struct LossSums {
  double smoothed = 0;  // the training objective
  double nll = 0;       // -log p(target), for perplexity
};

struct ProjectionLoss {
  Tensor hidden;                         // [tokens, d]
  Tensor table;                          // [vocabulary, d]
  std::span<const uint32_t> targets;     // one per token, in device memory
  const PackedWeight* packed = nullptr;  // of the table; for evaluation
  Tensor bias;                           // [1, vocabulary] in fp32, added to the logits, or empty
  float smoothing = 0;                   // probability spread evenly over the whole vocabulary
  float scale = 1;                       // factor of the gradient; a step queue adds its own
  int64_t chunk = 0;                     // tokens at once; 0: projection_loss_chunk()
  Tensor dhidden;                        // out; empty to evaluate only
  Tensor dtable;                         // added to; empty to evaluate only
  Tensor dbias;                          // added to, by complete_gradients(); on a GPU [1, 8 n]
  float* token_nll = nullptr;            // in host memory, one for each token: out, and a wait
  LossSums* sums = nullptr;              // in device memory: added to, and the host does not wait
};

// Returns zeros when the sums were added to `op.sums`.
LossSums projection_loss(const Device& device, const ProjectionLoss& op, Arena& arena);

// Tokens whose logits a kind of device computes at once, for estimates of memory.
int64_t projection_loss_chunk(DeviceKind kind);

}  // namespace reigen
