// A small training run for tests: a dataset of a few hundred pairs, a model of width 16.
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/train_options.h"
#include "model/transformer.h"
#include "support/temp_dir.h"
#include "train/run/setup.h"

namespace reigen {

// Prepares 300 training and 20 validation pairs in `directory`/data.
std::string prepare_small_data(const std::string& directory);

// Resolved; the run is `directory`/run.
TrainOptions small_train_options(const std::string& directory);

// The records of `kind` in the measurement log of a rank, in order.
std::vector<Json> log_records(const std::string& run, const std::string& kind, int rank = 0);
// Their steps.
std::vector<uint64_t> log_steps(const std::string& run, const std::string& kind, int rank = 0);

struct SmallRun {
  SmallRun();

  // A state at `step` with moments that are not zero.
  TrainState state(uint64_t step) const;
  // The facts that a trainer would write with it.
  CheckpointFacts facts(const TrainState& state) const;
  void write(const TrainState& state, const std::string& directory) const;

  TempDir dir;
  TrainOptions options;
  TrainingData data;
  Transformer model;
};

}  // namespace reigen
