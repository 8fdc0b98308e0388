// One step of beam search: log-softmax of the logits, added to the running scores, and the best
// candidates of each sentence, without storing the log-probabilities.
//
// The order is total, so that a search is reproducible: higher score first, then the lower row,
// then (in a row, where equal logits give equal scores) the lower token.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

struct BeamStep {
  Tensor logits;                          // [rows, vocabulary]
  std::span<const double> scores;         // of each row so far: a sum of log-probabilities
  std::span<const uint32_t> row_offsets;  // sentence s has rows [row_offsets[s], row_offsets[s+1])
  int64_t keep = 1;                       // candidates for each sentence

  // Out: [sentences, keep], best first. Where a sentence has fewer candidates the rest score minus
  // infinity. A row whose logits are not all finite gives no candidates.
  std::span<uint32_t> rows;
  std::span<uint32_t> tokens;
  std::span<double> totals;
};

void beam_step(const Device& device, const BeamStep& op);

}  // namespace reigen
