// The training state: all that a run needs to resume exactly as if it had never stopped.
//
// Batches, dropout and the learning rate are pure functions of the seed and of the counters, so
// nothing else is saved.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "data/batches.h"
#include "model/checkpoint.h"
#include "ops/gpu_step.h"
#include "optim/schedule.h"

namespace reigen {

struct Best {
  uint64_t step = 0;
  double value = 0;
};

// Numbers that change from step to step.
struct Counters {
  uint64_t step = 0;     // optimizer steps, skipped ones included
  uint64_t updates = 0;  // steps that changed the parameters
  Cursor cursor;         // the next batch
  uint64_t pairs = 0;
  uint64_t source_tokens = 0;
  uint64_t target_tokens = 0;
  uint64_t skipped = 0;
  uint64_t skipped_in_row = 0;
  uint64_t evaluated_step = 0;  // the last evaluation
  uint64_t evaluations_without_gain = 0;
  std::optional<Best> best_loss;
  std::optional<Best> best_bleu;
  std::optional<Best> best_chrf;
  std::map<std::string, Best> best_metrics;  // of eval.command, by name
  double seconds = 0;                        // since the run began, all attempts together
  double step_seconds = 0;                   // of these, in steps
  uint64_t attempt = 1;                      // number of this attempt
  uint64_t local_steps = 0;                  // since the last outer step (DiLoCo)
  LossScaleState loss_scale;                 // fp16
  bool average_better = false;  // at the last evaluation, the average of the weights (ema.decay)
};

// The checkpoint that a run of --from began with.
struct StartingPoint {
  std::string path;
  std::string sha256;  // of its manifest, which has the checksums of all files
  uint64_t step = 0;
};

// Choices of the program, made once and replayed on resume so that the run takes the same course.
struct Choices {
  uint64_t micro_tokens = 0;  // tokens of a micro-batch, at most
  uint64_t threads = 0;
  std::string precision = "fp32";
  // The rest is used by several workers only.
  uint64_t workers = 1;
  uint64_t bucket = 0;            // elements of the gradient in an all-reduce
  std::string compress = "none";  // compression of gradients
  uint64_t compress_warmup = 0;   // its last step of warm-up
  std::string worker_states_of =
      "none";                  // the compression that TrainState::worker_states belong to
  std::vector<double> shares;  // of the batch, by rank (--shares); empty: equal ones
  Decay decay;                 // the final decay of the learning rate that was begun, if any
  uint64_t decay_limit = 0;    // --max-steps when it began
  std::optional<StartingPoint> start;
};

struct SavedTensor {
  std::string name;
  std::vector<float> values;
};

struct TrainState {
  Counters counters;
  Choices choices;
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
  std::vector<float> average;  // of the parameters; empty without ema.decay
  // Compressor states of all ranks, on rank 0 while a checkpoint is written or read; else empty.
  std::vector<SavedTensor> worker_states;
};

// Counters and choices as a checkpoint's manifest holds them. Reading throws FieldError when one
// is missing or of the wrong type.
Json manifest_state(const TrainState& state);
void read_manifest_state(const Json& json, TrainState& state);

// The moments, and the workers' states, with their names in a checkpoint.
std::vector<NamedBuffer> moments_of(const TrainState& state);
std::vector<SafeTensorSource> worker_tensors(const TrainState& state);

// Reads the moments of a checkpoint, whose file has been verified. Throws CheckpointError.
void read_moments(const std::string& checkpoint, const ParameterLayout& layout, TrainState& state);

// Reads a checkpoint with its moments and verifies every file. Throws CheckpointError.
TrainState read_state(const std::string& checkpoint, const ParameterLayout& layout);

}  // namespace reigen
