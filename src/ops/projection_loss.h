// Projection onto the vocabulary, softmax and label-smoothed cross-entropy, forward and gradient in
// one pass over chunks of tokens: the logits of a whole batch never exist at once.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace reigen {

struct ProjectionLoss {
  Tensor hidden;                      // [tokens, d]
  Tensor table;                       // [vocabulary, d]
  std::span<const uint32_t> targets;  // one per token
  float smoothing = 0;                // mass spread evenly over the whole vocabulary
  float scale = 1;                    // of the gradient: 1 / target tokens of the global batch
  int64_t chunk = 512;                // tokens at once
  Tensor dhidden;                     // out; empty to evaluate only
  Tensor dtable;                      // added to; empty to evaluate only
};

struct LossSums {
  double smoothed = 0;  // what training minimises
  double nll = 0;       // -log p(target), for perplexity
};

LossSums projection_loss(const Device& device, const ProjectionLoss& op, Arena& arena);

}  // namespace reigen
