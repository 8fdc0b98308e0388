// The best logits of each row and the log of its softmax's sum: what a step of beam search needs of
// the logits (ops/beam_step.h), so that a few numbers per hypothesis cross to the host and not the
// vocabulary.
#pragma once

#include <cstdint>

#include "ops/cuda/context.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

struct TopLogit {
  float logit;
  uint32_t token;
};

constexpr int64_t kMostKept = 512;

// For each row of `logits` ([rows, vocabulary], any type, stride a multiple of 8): the `keep`
// largest to `tops` [rows, keep], best first, the lower token first among equals, the rest minus
// infinity where the vocabulary is smaller; and the natural log of the sum of exponentials to
// `log_sums` [rows], NaN where a row is not all finite. Both are device memory.
void top_rows(const Context& context, Tensor logits, int64_t keep, TopLogit* tops, float* log_sums);

}  // namespace reigen::cuda
