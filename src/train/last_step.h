// The last step of a run as far as its limits tell, at which the decay of wsd ends.
#pragma once

#include <cstdint>
#include <string>

#include "config/train_options.h"
#include "data/batches.h"
#include "data/dataset.h"

namespace reigen {

BatchSize batch_size(const TrainOptions& options);

// The step at which --max-steps or --max-epochs ends the run; 0: neither does. Only wsd needs the
// end of --max-epochs: its batches are then counted, where they have at most kMostCountedPairs.
int64_t planned_last_step(const TrainOptions& options, const Dataset& train);

// Why wsd may end without a decay, with advice; empty where it does not. Expects the last step in
// the options of the schedule.
std::string missing_decay(const TrainOptions& options);

// The same for a run that --max-time has ended at `step`, before the end of the planned decay.
std::string unfinished_decay(const TrainOptions& options, uint64_t step);

}  // namespace reigen
