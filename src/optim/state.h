// Everything a run has to remember to go on exactly as if it had never stopped.
//
// Batches, dropout and the learning rate are pure functions of the seed and of these numbers, so
// nothing else is saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/batches.h"
#include "model/checkpoint.h"
#include "ops/gpu_step.h"

namespace reigen {

struct Best {
  uint64_t step = 0;
  double value = 0;
};

// The numbers: what a checkpoint's manifest holds.
struct Counters {
  uint64_t step = 0;     // optimizer steps, skipped ones included
  uint64_t updates = 0;  // steps that changed the parameters
  Cursor cursor;         // the next batch
  uint64_t pairs = 0;
  uint64_t source_tokens = 0;
  uint64_t target_tokens = 0;
  uint64_t skipped = 0;
  uint64_t skipped_in_row = 0;
  uint64_t evaluated_step = 0;
  uint64_t evaluations_without_gain = 0;
  std::optional<Best> best_loss;
  std::optional<Best> best_bleu;
  double seconds = 0;         // since the run began, all attempts together
  double step_seconds = 0;    // of them in steps
  uint64_t attempt = 1;       // how often the run was started
  uint64_t micro_tokens = 0;  // chosen once, replayed on resume
  uint64_t threads = 0;
  uint64_t bucket =
      0;  // elements of the gradient sent at once; chosen once, where there are others
  std::string compress = "none";  // how gradients travel; chosen once where that was left to us
  std::string kept_by = "none";   // the method and number of workers that TrainState::kept is of
  uint64_t workers = 1;
  uint64_t compress_warmup = 0;  // the last step before it begins
  uint64_t local_steps = 0;      // since workers that train apart met
  std::string precision = "fp32";
  LossScaleState loss_scale;  // fp16
};

Json to_json(const Counters& counters);
Counters counters_from_json(const Json& json);

struct SavedTensor {
  std::string name;
  std::vector<float> values;
};

struct TrainState {
  Counters counters;
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<SavedTensor> kept;  // by workers, for a checkpoint; empty in between
};

// What the moments are called in a checkpoint.
std::vector<NamedBuffer> moments_of(const TrainState& state);

// What workers keep, likewise.
std::vector<SafeTensorSource> kept_of(const TrainState& state);

// Reads a checkpoint with its moments, every file verified. Throws CheckpointError.
TrainState read_state(const std::string& checkpoint, const ParameterLayout& layout);

}  // namespace reigen
