// The options of `reigen train`, and which of them may change when a run is resumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/decode_options.h"
#include "config/device_options.h"
#include "config/fine_tune_options.h"
#include "config/loss_scaling.h"
#include "config/model_options.h"
#include "config/preemption.h"
#include "config/recipe_kind.h"
#include "config/report_options.h"
#include "config/schedule_options.h"
#include "config/schema.h"
#include "config/worker_options.h"

namespace reigen {

// The global batch of an optimizer step, over all workers: a number of target tokens or, if set, of
// pairs.
struct BatchOptions {
  int64_t target_tokens = 4096;
  int64_t pairs = 0;
};

enum class OptimizerKind { kAdam, kAdamW, kMuon };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-9;
  double weight_decay = 0.01;  // adamw, and the hidden matrices of muon
  double momentum = 0.95;      // muon only, as the next two
  double muon_ratio = 2;       // rate of the hidden matrices / rate of the rest
  bool muon_split = true;      // queries, keys and values are three matrices
  double clip = 1;             // global norm; 0 for off
  int64_t max_skipped = 20;    // consecutive steps without a finite loss
};

std::string optimizer_name(OptimizerKind kind);  // as in optimizer.kind

enum class StopMetric { kLoss, kBleu, kChrf, kCommand };

struct EvalOptions {
  int64_t every = 1000;
  bool bleu = true;
  int64_t sentences = 0;  // to translate; 0 for all
  int64_t samples = 3;
  int64_t patience = 0;  // evaluations without a better score; 0: no early stopping
  StopMetric stop_on = StopMetric::kLoss;
  std::string command;         // prints `name value` for the files of a translation; empty: none
  double command_limit = 600;  // seconds
};

struct CheckpointOptions {
  int64_t every = 1000;
  double minutes = 0;  // 0: time requires no checkpoint
  int64_t keep = 3;
  double wait = 600;    // seconds
  std::string copy_to;  // a second place for the last checkpoint (config/copy_target.h)
};

struct TrainOptions {
  std::string preset = "base";
  Recipe recipe = Recipe::kBest;
  std::string data;
  std::string run;
  int64_t max_steps = 0;          // 0: no limit
  bool max_steps_chosen = false;  // by the recipe
  double max_epochs = 0;
  double max_time = 0;    // seconds
  int64_t decay_now = 0;  // steps; 0: not asked for
  int64_t seed = 1;
  DeviceOptions device;
  std::string algorithms;  // algorithms.txt of a different run; empty: chosen by timing
  int64_t threads = 0;
  uint64_t memory = 0;  // bytes; 0 for half of the free memory
  int64_t micro_tokens = 0;
  Preemption preemption = Preemption::kAuto;
  int64_t log_every = 50;
  std::string timeline;  // "FIRST:LAST" or empty
  double smoothing = 0.1;
  LossScaling loss_scaling = LossScaling::kBackoff;  // with fp16
  bool quiet = false;
  std::string on_event;        // a shell command; empty: none
  double stalled_after = 900;  // seconds; 0: never
  bool dashboard = false;
  PageOptions page;
  ModelOptions model = sizes_of_preset();
  DropoutOptions dropout;
  FineTuneOptions tune;
  BatchOptions batch;
  OptimizerOptions optimizer;
  double ema_decay = 0;  // of the moving average of the weights; 0: none
  ScheduleOptions schedule;
  EvalOptions eval;
  DecodeOptions decode;
  CheckpointOptions checkpoint;
  WorkerOptions workers;
  std::vector<std::string> arguments;  // the command line, for starting workers
  // Options that must be the same on all command lines of a job, as given by command line and
  // --config, without those that the run has recorded.
  Json same_for_all;
  GivenKeys given;     // by command line, --config or the run's record; the recipe chooses the rest
  std::string chosen;  // by the recipe, or dropped, for the log; empty where nothing was
};

struct StepRange {
  uint64_t first = 0;
  uint64_t last = 0;
};
StepRange parse_step_range(const std::string& text);  // "100:104"; throws ConfigError

void describe(Schema& schema, TrainOptions& options);
// Without the run directory and the live page: the options of a planned run.
void describe_settings(Schema& schema, TrainOptions& options);

// Replaces every 0 that stands for a default of the preset or of the schedule's kind, and checks
// all options together.
TrainOptions resolve(TrainOptions options);

// The content of config.yaml.
Json recorded_options(const TrainOptions& options);
std::string config_file(const std::string& run);

// RUN/config.yaml, from which a resumed run takes its options: when the run has a checkpoint, or
// when no dataset is given.
std::optional<std::string> recorded_config(const TrainOptions& options);
inline constexpr uint64_t kMostConfigBytes = 16 << 20;  // of that file

// The options that a run has recorded, without keys that this version does not know; none when
// there is no such file. Throws ConfigError when it cannot be read.
std::optional<TrainOptions> read_recorded_options(const std::string& run);
// The same from text, such as the JSON of a checkpoint, which is YAML, too. Errors begin with
// `name`.
TrainOptions parse_recorded_options(const std::string& yaml, const std::string& name);
// The same with a schema of `options`. A record without a recipe is older than recipes: classic.
void parse_recorded(Schema& schema, TrainOptions& options, const std::string& yaml,
                    const std::string& name, Schema::UnknownKeys unknown);

// On resume: a number of steps that the recipe chose gives way to --max-epochs or --eval.patience,
// but not to --max-time, which only ends an attempt earlier. `now`: keys of command line and
// --config, without the run's record.
void drop_chosen_limit(TrainOptions& options, const GivenKeys& now);

// "model.width was 256 and is 512 now", for each option that differs from `before`, the recorded
// options of a run, and must not change on resume.
std::vector<std::string> changed_settings(const Json& before, const TrainOptions& now);

// "model.width" and so on: the options by which runs are compared.
std::vector<std::string> hyperparameter_keys();

// The options of a worker other than rank 0: the recorded options of rank 0, as YAML, except for
// options of the machine and of the launch, which have this worker's own values.
TrainOptions options_for_worker(const std::string& of_rank0, const TrainOptions& own);

}  // namespace reigen
