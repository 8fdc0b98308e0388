// The options of `reigen train`, and which of them may change when a run is resumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/decode_options.h"
#include "config/device_options.h"
#include "config/model_options.h"
#include "config/report_options.h"
#include "config/schedule_options.h"
#include "config/schema.h"
#include "config/worker_options.h"

namespace reigen {

// The global batch of an optimizer step, whoever computes it: so many target tokens or, when that
// is set, so many pairs.
struct BatchOptions {
  int64_t target_tokens = 4096;
  int64_t pairs = 0;
};

enum class OptimizerKind { kAdam, kAdamW };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-9;
  double weight_decay = 0.01;  // adamw alone
  double clip = 1;             // global norm; 0 for off
  int64_t max_skipped = 20;    // steps in a row without a finite loss
};

enum class LossScalePolicy { kBackoff, kLogMax };

enum class StopMetric { kLoss, kBleu };

struct EvalOptions {
  int64_t every = 1000;
  bool bleu = true;
  int64_t sentences = 0;  // to decode; 0 for all of them
  int64_t samples = 3;
  int64_t patience = 0;  // evaluations without a better score; 0 for never stopping early
  StopMetric stop_on = StopMetric::kLoss;
};

struct CheckpointOptions {
  int64_t every = 1000;
  int64_t keep = 3;
};

struct TrainOptions {
  std::string preset = "base";
  std::string data;
  std::string run;
  int64_t max_steps = 0;  // 0: no limit
  double max_epochs = 0;
  double max_time = 0;  // seconds
  int64_t seed = 1;
  DeviceOptions device;
  std::string algorithms;  // a file with choices of another run; empty: this run's own
  int64_t threads = 0;
  uint64_t memory = 0;  // bytes; 0 for half of what is free
  int64_t micro_tokens = 0;
  int64_t log_every = 50;
  std::string timeline;  // "FIRST:LAST" or empty
  double smoothing = 0.1;
  LossScalePolicy loss_scaling = LossScalePolicy::kBackoff;
  bool quiet = false;
  bool dashboard = false;
  PageOptions page;
  ModelOptions model = sizes_of_preset();
  DropoutOptions dropout;
  BatchOptions batch;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  EvalOptions eval;
  DecodeOptions decode;
  CheckpointOptions checkpoint;
  WorkerOptions workers;
  std::vector<std::string> arguments;  // the command line, for those who start workers
  Json as_given;  // by command line and --config alone, before anything a run has recorded
};

struct StepRange {
  uint64_t first = 0;
  uint64_t last = 0;
};
StepRange parse_step_range(const std::string& text);  // "100:104"; throws ConfigError

void describe(Schema& schema, TrainOptions& options);
// Without what only `train` itself asks for.
void describe_settings(Schema& schema, TrainOptions& options);

// Every 0 that means "the preset's" or "the kind's own" replaced, and all checked together.
TrainOptions resolve(TrainOptions options);

// The whole configuration, as config.yaml holds it.
Json recorded_options(const TrainOptions& options);
std::string config_file(const std::string& run);

// RUN/config.yaml when the run has a checkpoint: what a resumed run starts from. Also when it has
// none and nothing else says what to train on.
std::optional<std::string> recorded_config(const TrainOptions& options);

// "model.width was 256 and is 512 now", for each option that differs and would change the course of
// a run. Limits, logging, evaluation and checkpoint options may change freely.
std::vector<std::string> changed_settings(const Json& before, const Json& now);

}  // namespace reigen
