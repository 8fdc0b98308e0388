// What the workers of a run agree on before and between steps.
#pragma once

#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "plan/bucket_size.h"

namespace reigen {

// The first worker's options for everybody, but for what is each machine's own business: threads,
// memory, device, interface, and where the data is when that was given.
TrainOptions shared_options(Job& job, const TrainOptions& mine);

// Throws DataError that names who has other data than the first worker.
void check_same_data(Job& job, const std::string& fingerprint, const std::string& path);

// Scores of decoded text, which only the first worker has.
void share_scores(Job& job, EvaluationRecord& record);

// As given, as recorded, or as measured.
void choose_bucket(Job& job, const WorkerOptions& options, size_t elements,
                   const std::vector<CurvePoint>& curve, Counters& counters);

// Before a checkpoint: everybody must hold the same weights. Where they do not (machines of other
// kinds may round differently) that is said, and all go on from the first worker's, as they would
// after a stop. False when the state was changed.
bool check_same_weights(Job& job, TrainState& state, bool own_moments);

// How many workers compute on this one's GPU, itself included; 1 on the CPU. Says so where it is
// more.
int workers_on_gpu(Job& job, const Device& device);

// "2 workers over eth0 (10.0.0.1, 10,000 Mbit/s): ..."; empty for one.
std::string describe(Job& job, const Counters& counters);

}  // namespace reigen
