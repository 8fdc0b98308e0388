// Agreements between the workers of a job before and between steps. All functions are collective.
#pragma once

#include <string>

#include "config/train_options.h"
#include "dist/members/job.h"
#include "observe/record/records.h"
#include "optim/state.h"
#include "plan/bucket_size.h"

namespace reigen {

// Rank 0's options, except for those that belong to a machine: threads, memory, device, interface,
// and the path of the data where one was given.
TrainOptions shared_options(Job& job, const TrainOptions& mine);

// Throws DataError that names the ranks whose data differs from rank 0's.
void check_same_data(Job& job, const std::string& fingerprint, const std::string& path);

// Copies BLEU and chrF, which only rank 0 computes, to all ranks.
void share_scores(Job& job, EvaluationRecord& record);

// The bucket size: as given, as recorded by the run, or by the measured link.
void choose_bucket(Job& job, const WorkerOptions& options, size_t elements,
                   const std::vector<CurvePoint>& curve, Choices& choices);

// Before a checkpoint: compares the weights of all ranks, and the moments unless `own_moments`.
// Machines of different kinds may round differently; then all ranks take rank 0's state, as they
// would on resume, with a warning. False when the state was changed.
bool check_same_weights(Job& job, TrainState& state, bool own_moments);

// Number of workers on this worker's GPU, itself included; 1 on the CPU. More than one is worth a
// warning.
int workers_on_gpu(Job& job, const Device& device);

// "2 workers over eth0 (10.0.0.1, 10,000 Mbit/s); ..."; empty for a single worker.
std::string describe(Job& job, const Choices& choices);

}  // namespace reigen
