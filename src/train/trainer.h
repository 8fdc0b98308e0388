// `reigen train`: a run from its options to its last checkpoint, new or resumed.
#pragma once

#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"

namespace reigen {

// Trains until a limit, early stopping or a signal. Throws Interrupted after a signal, when
// everything is saved, and DivergedError when there is no finite loss any more.
// `job` are the workers that train together; all call it.
void train(const TrainOptions& options, const std::string& version, Job& job);

}  // namespace reigen
