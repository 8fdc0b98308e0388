// The best logits of each row, which both forms of a beam step begin with: merged on the host
// (ops/beam_step.h) or on the GPU (ops/gpu_search.h).
#pragma once

#include <cstdint>

#include "ops/cuda/context.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

struct TopLogit {
  float logit;
  uint32_t token;
};

// For each row of `logits` (stride a multiple of 8): the `keep` largest to `tops` [rows, keep],
// best first, the lower token first among equals, the rest minus infinity where the vocabulary is
// smaller; and the natural log of the sum of exponentials to `log_sums` [rows], NaN where a row is
// not all finite.
void top_rows(const Context& context, Tensor logits, int64_t keep, TopLogit* tops, float* log_sums);

}  // namespace reigen::cuda
