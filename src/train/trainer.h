// `reigen train` in one worker: a run, new or resumed, from its options to its last checkpoint.
#pragma once

#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"
#include "train/attempt_parts.h"

namespace reigen {

// Trains until a limit, early stopping or a signal. All workers of `job` call it. Throws
// Interrupted after a signal, when the last checkpoint is written, and DivergedError when the loss
// is no longer finite.
void train(const TrainOptions& options, const std::string& version, Job& job);

// Runs the training loop; the other workers get the reason of an error. `joined`: this process has
// just been added to a running job.
void run_attempt(AttemptParts& parts, bool joined = false);

}  // namespace reigen
