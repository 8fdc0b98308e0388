// `reigen join`, and a worker that its launcher starts again (--restarts): a new process becomes a
// worker of a running elastic job. It learns the options of
// the job from rank 0, opens the dataset, and asks to be added only when version and dataset are
// those of the job; then all form the next membership with it, and it receives the training state.
#pragma once

#include <string>

#include "config/join_options.h"
#include "dist/launch/launch.h"
#include "train/attempt_parts.h"

namespace reigen {

// What a worker of the job tells such a process.
std::string welcome_text(const AttemptParts& parts);

// Trains until the run ends, or this worker leaves. Throws ConfigError and DataError where this
// process may not join.
void join_running_job(const JoinJobOptions& options, const std::string& version);

// The same for a worker of the job's own launcher, which gave `placement`; `own`: the options with
// which the job was started.
void rejoin_running_job(const TrainOptions& own, const Placement& placement,
                        const std::string& version);

}  // namespace reigen
