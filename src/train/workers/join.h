// How this process becomes one of the workers of a run, if it is one.
#pragma once

#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"

namespace reigen {

// Whether a launcher (ours, mpirun, srun, torchrun) started this process as one of several.
bool started_as_worker();

// Meets the others; alone when nobody started several. Shares this machine's cores and memory out
// over its workers, in `options`. Throws CommError naming who is missing or does not fit.
Job join_job(TrainOptions& options, const std::string& version);

}  // namespace reigen
