// Records of the algorithms that the matrix library chose, one file for each worker beside the
// checkpoints. Two algorithms add in different orders, so a resumed run replays its own.
#pragma once

#include <string>

#include "config/train_options.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "train/run/run_writer.h"

namespace reigen {

// Both are collective; `writer` is rank 0's and null elsewhere.
void record_algorithms(Job& job, const Device& device, RunWriter* writer);

// Replays the algorithms that the run recorded, or for a new run those in the file that `options`
// name.
void replay_algorithms(Job& job, const Device& device, RunWriter* writer,
                       const TrainOptions& options, bool resumed);

}  // namespace reigen
