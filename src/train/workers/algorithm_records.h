// Two algorithms of the matrix library add in different orders, so a run keeps those it began with:
// one record for each worker, beside the checkpoints.
#pragma once

#include <string>

#include "config/train_options.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "train/run/run_writer.h"

namespace reigen {

// Both are called by all workers; `writer` is the first one's, null elsewhere.
void keep_algorithms(Job& job, const Device& device, RunWriter* writer);

// What the run recorded, or for a new one what `options` name.
void replay_algorithms(Job& job, const Device& device, RunWriter* writer,
                       const TrainOptions& options, bool resumed);

}  // namespace reigen
