// Projection onto the vocabulary, softmax and label-smoothed cross-entropy, forward and gradient in
// one pass over chunks of tokens: the logits of a whole batch never exist at once.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace reigen {

struct LossSums {
  double smoothed = 0;  // what training minimises
  double nll = 0;       // -log p(target), for perplexity
};

struct ProjectionLoss {
  // On a GPU a chunk costs a pass over dtable, so chunks are large: 350 MB of 16-bit logits for
  // 32,768 pieces.
  static constexpr int64_t kGpuChunk = 5376;

  Tensor hidden;                      // [tokens, d]
  Tensor table;                       // [vocabulary, d]
  std::span<const uint32_t> targets;  // one per token, in the device's memory
  float smoothing = 0;                // mass spread evenly over the whole vocabulary
  float scale = 1;                    // of the gradient: 1 / target tokens of the global batch
  int64_t chunk = 512;                // tokens at once, on the CPU
  Tensor dhidden;                     // out; empty to evaluate only
  Tensor dtable;                      // added to; empty to evaluate only
  LossSums* sums = nullptr;           // on a GPU: add them there instead of waiting for them
};

// Nothing but zeros where the sums were added to `op.sums`.
LossSums projection_loss(const Device& device, const ProjectionLoss& op, Arena& arena);

}  // namespace reigen
