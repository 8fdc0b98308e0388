// The second half of a beam step, on the host: the best candidates of each sentence among the best
// of its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ops/beam_step.h"

namespace reigen {

struct RowCandidate {
  double log_probability = 0;  // not finite: the row has no further candidates
  uint32_t token = 0;
};

// `candidate(row, rank)` is the rank-th best of a row, for ranks below `ranks`. Fills op.rows,
// op.tokens and op.totals.
void merge_candidates(const BeamStep& op, size_t ranks,
                      const std::function<RowCandidate(size_t row, size_t rank)>& candidate);

}  // namespace reigen
