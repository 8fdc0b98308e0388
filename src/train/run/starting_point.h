// Fine-tuning: a new run that begins with the weights of a checkpoint (--from).
//
// The checkpoint is read once, by rank 0, before the first step of the run. A resumed run does not
// need it any more: its path and checksum are part of the state (optim/state.h).
#pragma once

#include <optional>

#include "config/train_options.h"
#include "data/manifest.h"
#include "model/transformer.h"
#include "optim/state.h"
#include "train/run/setup.h"

namespace reigen {

// The options of a new run with the model of its starting point, and the dataset of the starting
// point as eval.old-data unless that is given. Throws ConfigError where a given option contradicts
// the checkpoint, CheckpointError where the dataset has a different vocabulary.
TrainOptions with_starting_point(TrainOptions options);

// The state that the run begins with: the checkpoint's weights (their average where it scored
// better), with fresh moments and counters, or with --from-optimizer those of the checkpoint.
// Throws ConfigError when its optimizer does not fit.
TrainState starting_state(const TrainOptions& options, const Transformer& model,
                          const TrainingData& data);

bool names_dataset(const std::string& old_data);  // eval.old-data is neither empty nor none

// The validation set of eval.old-data; none where it is not asked for. Throws DataError when its
// vocabulary is not that of the run.
std::optional<ValidationSet> open_old_valid(const TrainOptions& options, const TrainingData& own);

}  // namespace reigen
