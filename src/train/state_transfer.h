// The training state travels to workers that were added to an elastic job: rank 0 sends parameters,
// moments, their average, and what the compressors of all ranks share, with the same bits.
// Residuals of those workers begin with zero. Training pauses meanwhile: each step changes all of
// the state.
#pragma once

#include <vector>

#include "train/attempt_parts.h"

namespace reigen {

// On all members, after the same step; `to`: the ranks without a state, whose counters and choices
// are already those of the others. They have a new stepper afterwards. The others log the length of
// the pause, estimated by the first megabytes. Throws WorkerLost.
void send_state(AttemptParts& parts, const std::vector<int>& to);

}  // namespace reigen
