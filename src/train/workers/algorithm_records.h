// Two algorithms of the matrix library add in different orders, so a run keeps those it began with:
// one record for each worker, beside the checkpoints.
#pragma once

#include <string>

#include "config/train_options.h"
#include "device/device.h"
#include "dist/members/crew.h"
#include "train/run/run_keeper.h"

namespace reigen {

// Both are called by all workers; `keeper` is the first one's, null elsewhere.
void keep_algorithms(Crew& crew, const Device& device, RunKeeper* keeper);

// What the run recorded, or for a new one what `options` name.
void replay_algorithms(Crew& crew, const Device& device, RunKeeper* keeper,
                       const TrainOptions& options, bool resumed);

}  // namespace reigen
