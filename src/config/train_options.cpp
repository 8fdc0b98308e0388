#include "config/train_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "config/common_options.h"
#include "config/copy_target.h"
#include "config/units.h"
#include "config/yaml.h"

namespace reigen {
namespace {

const std::vector<std::pair<std::string, OptimizerKind>> kOptimizers = {
    {"adam", OptimizerKind::kAdam},
    {"adamw", OptimizerKind::kAdamW},
    {"muon", OptimizerKind::kMuon}};

Option timeline_option(std::string& target) {
  auto assign = [&target](const Json& value) {
    const std::string text = scalar(value);
    if (!text.empty()) parse_step_range(text);
    target = text;
  };
  return {.key = "timeline",
          .value_name = "FIRST:LAST",
          .help =
              "range of steps to trace on all workers, with synchronised clocks, into "
              "RUN/timeline-FIRST-LAST.json for Perfetto or chrome://tracing",
          .assign = assign,
          .current = [&target] { return Json(target); }};
}

void describe_limits(Schema& s, TrainOptions& o) {
  s.option("max-steps", o.max_steps,
           "number of optimizer steps after which training stops; 0 for no limit; for wsd, the "
           "recipe best chooses it where neither max-epochs nor eval.patience limits the run",
           0, kMaxSteps)
      .free_on_resume()
      .by_recipe();
  s.option("max-steps-chosen", o.max_steps_chosen,
           "whether the recipe chose max-steps, so that max-epochs or eval.patience on resume "
           "replaces it; recorded by the program, not meant to be given")
      .free_on_resume();
  s.option("max-epochs", o.max_epochs,
           "number of passes over the training set after which training stops; 0 for no limit", 0,
           1e9)
      .free_on_resume();
  s.custom(seconds_option("max-time", o.max_time,
                          "training time over all attempts after which training stops; 0 for no "
                          "limit"))
      .free_on_resume();
}

void describe_decay_now(Schema& s, TrainOptions& o) {
  s.option(
       "decay-now", o.decay_now,
       "number of steps of a linear decay of the learning rate that begins now and ends the run "
       "of --run, instead of any other limit; a stopped run is resumed, a running one continues; "
       "refused if the run already has such a decay; 0 for none",
       0, kMaxSteps)
      .free_on_resume()
      .from_rank0()
      .unrecorded();  // a request; checkpoint and measurement log record the decay
}

void describe_events(Schema& s, TrainOptions& o) {
  s.option("on-event", o.on_event, "COMMAND",
           "shell command for the events of the run, with $REIGEN_EVENT (finished, diverged, "
           "lost-worker or stalled), $REIGEN_EVENT_RUN, $REIGEN_EVENT_STEP and "
           "$REIGEN_EVENT_MESSAGE; training does not wait for it, except up to a minute at its "
           "end; not taken from files, so a resume needs it again")
      .free_on_resume()
      .from_rank0()
      .command_line_only();
  s.custom(seconds_option("stalled-after", o.stalled_after,
                          "time without a step, an evaluation or a checkpoint after which "
                          "on-event gets the event stalled; 0 for never"))
      .free_on_resume()
      .from_rank0();
}

void describe_compute(Schema& s, TrainOptions& o) {
  describe(s, o.device);
  s.option("algorithms", o.algorithms, "FILE",
           "algorithms.txt of a run on the same kind of GPU, whose choice of matrix algorithms is "
           "repeated for bit-identical results; chosen by timing when empty")
      .free_on_resume();
  describe_threads(s, o.threads, "; bit-identical results need the same number")
      .free_on_resume()
      .per_worker();
  s.custom(bytes_option("memory", o.memory,
                        "memory budget of a worker, which limits the size of micro-batches (on a "
                        "GPU, memory of the GPU); 0 for half of the free memory at start, or nine "
                        "tenths on a GPU"))
      .free_on_resume()
      .per_worker();
  s.option("micro-tokens", o.micro_tokens,
           "maximum number of source and target tokens in a micro-batch; 0 for 4096 on the CPU and "
           "a whole batch on a GPU, or less if the memory requires it",
           0, 1'000'000'000)
      .fixed_on_resume();
}

void describe_batch(Schema& s, TrainOptions& o) {
  s.option("batch.target-tokens", o.batch.target_tokens,
           "number of target tokens per optimizer step over all workers, ends of sentences "
           "included",
           1, 1'000'000'000)
      .hyperparameter()
      .by_recipe();
  s.option("batch.pairs", o.batch.pairs,
           "number of sentence pairs per optimizer step over all workers, instead of "
           "batch.target-tokens; 0 for off",
           0, 1'000'000'000)
      .hyperparameter();
}

void describe_optimizer(Schema& s, TrainOptions& o) {
  s.choice(
       "optimizer.kind", o.optimizer.kind,
       "optimizer; adamw is Adam with decoupled weight decay; muon orthogonalises the update of "
       "each hidden matrix (attention, feed-forward) and updates the rest by Adam",
       kOptimizers)
      .hyperparameter()
      .by_recipe();
  s.option("optimizer.beta1", o.optimizer.beta1, "decay rate of the first moment", 0, 0.999999)
      .hyperparameter();
  s.option("optimizer.beta2", o.optimizer.beta2, "decay rate of the second moment", 0, 0.999999999)
      .hyperparameter()
      .by_recipe();
  s.option("optimizer.epsilon", o.optimizer.epsilon,
           "constant added to the denominator of the update, which avoids a division by zero",
           1e-20, 1)
      .hyperparameter();
  s.option("optimizer.weight-decay", o.optimizer.weight_decay,
           "decoupled weight decay (adamw, and the hidden matrices of muon)", 0, 10)
      .hyperparameter()
      .by_recipe();
  s.option("optimizer.momentum", o.optimizer.momentum,
           "Nesterov momentum of the hidden matrices (muon)", 0, 0.999999)
      .hyperparameter();
  s.option("optimizer.muon-ratio", o.optimizer.muon_ratio,
           "learning rate of the hidden matrices as a multiple of the schedule's, which all other "
           "parameters have (muon)",
           1e-6, 1e6)
      .hyperparameter()
      .by_recipe();
  s.option("optimizer.muon-split", o.optimizer.muon_split,
           "orthogonalise queries, keys and values each as a matrix of its own and not as one tall "
           "matrix (muon)")
      .hyperparameter();
  s.option("optimizer.clip", o.optimizer.clip,
           "maximum global norm of the gradient, to which larger gradients are scaled down; 0 for "
           "no clipping",
           0, 1e9)
      .hyperparameter();
  s.option("optimizer.max-skipped", o.optimizer.max_skipped,
           "number of consecutive steps with a loss or gradient that is not finite, after which "
           "training stops",
           1, 1'000'000)
      .hyperparameter()
      .free_on_resume();
  s.choice("optimizer.loss-scaling", o.loss_scaling,
           "dynamic loss scaling, which saves small fp16 gradients from underflow: backoff halves "
           "the scale when a gradient overflows and doubles it after 2,000 steps without overflow; "
           "logmax follows the largest recent gradients",
           {{"backoff", LossScaling::kBackoff}, {"logmax", LossScaling::kLogMax}})
      .hyperparameter();
  s.option("smoothing", o.smoothing,
           "label smoothing: share of the target probability that is spread over the vocabulary", 0,
           0.9)
      .hyperparameter();
}

void describe_average(Schema& s, TrainOptions& o) {
  s.option(
       "ema.decay", o.ema_decay,
       "factor d of an exponential moving average of the weights, which is evaluated and saved "
       "beside them: after each step, average = d * average + (1 - d) * weights, with d at most "
       "(1 + step) / (10 + step); about the last 1 / (1 - d) steps count; translation uses it "
       "where it scored better on the validation set; 0 for no average",
       0, 0.9999999)
      .hyperparameter()
      .free_on_resume();
}

void describe_eval(Schema& s, TrainOptions& o) {
  s.option("eval.every", o.eval.every,
           "number of steps between evaluations on the validation set; 0 for one evaluation at the "
           "end",
           0, kMaxSteps)
      .free_on_resume()
      .by_recipe();
  s.option("eval.bleu", o.eval.bleu,
           "translate the validation set at each evaluation and compute BLEU and chrF")
      .free_on_resume();
  s.option("eval.sentences", o.eval.sentences,
           "number of sentences of the validation set to translate, from its beginning; 0 for all",
           0, 1'000'000'000)
      .free_on_resume();
  s.option("eval.samples", o.eval.samples,
           "number of sample translations to show at each evaluation", 0, 100)
      .free_on_resume();
  s.option("eval.patience", o.eval.patience,
           "number of evaluations without a better score after which training stops early, or "
           "schedule.kind wsd begins its decay, which ends the run; 0 for no early stopping",
           0, 1'000'000)
      .free_on_resume();
  s.choice("eval.stop-on", o.eval.stop_on, "validation score that eval.patience watches",
           {{"loss", StopMetric::kLoss},
            {"bleu", StopMetric::kBleu},
            {"chrf", StopMetric::kChrf},
            {"command", StopMetric::kCommand}})
      .free_on_resume();
  s.option("eval.command", o.eval.command, "COMMAND",
           "shell command for any other metric, run by rank 0 after each translation of the "
           "validation set with the paths of plain text in $SOURCE, $HYPOTHESIS and $REFERENCE; "
           "prints lines `name value`, where higher is better; the best checkpoint by each is "
           "best-NAME, and eval.stop-on command watches the first; not taken from files, so a "
           "resume needs it again")
      .free_on_resume()
      .command_line_only();
  s.custom(seconds_option("eval.command-limit", o.eval.command_limit,
                          "time limit of eval.command, after which its scores are missing; 0 for "
                          "none"))
      .free_on_resume();
}

void describe_checkpoint(Schema& s, TrainOptions& o) {
  s.option("checkpoint.every", o.checkpoint.every, "number of steps between checkpoints", 1,
           kMaxSteps)
      .free_on_resume()
      .by_recipe();
  s.option("checkpoint.minutes", o.checkpoint.minutes,
           "number of minutes after the last checkpoint at which the next one is written, if "
           "checkpoint.every has not written it before; 0 for no such limit",
           0, 1e6)
      .free_on_resume();
  s.option("checkpoint.keep", o.checkpoint.keep,
           "number of latest checkpoints to retain, besides the best by loss and the best by BLEU",
           1, 1'000'000)
      .free_on_resume();
  s.custom(seconds_option("checkpoint.wait", o.checkpoint.wait,
                          "longest wait for room on a full disk at the end of a run, after which "
                          "the last checkpoint is given up; 0 for none"))
      .free_on_resume();
  s.choice("preemption", o.preemption,
           "cloud that is polled for notices of preemption, after which the run is saved and ends "
           "(exit code 9); auto polls where the firmware names one of these clouds",
           {{"auto", Preemption::kAuto},
            {"aws", Preemption::kAws},
            {"gcp", Preemption::kGcp},
            {"azure", Preemption::kAzure},
            {"off", Preemption::kOff}})
      .free_on_resume()
      .per_worker();
  s.option("checkpoint.copy-to", o.checkpoint.copy_to, "PLACE",
           "place of a second, verified copy of the last checkpoint, written in the background: "
           "an absolute directory, HOST:DIR over ssh, or command:PROGRAM; `reigen restore` makes "
           "a run from it")
      .free_on_resume()
      .from_rank0()
      .command_line_only_if(kCopyCommand);
}

}  // namespace

std::string optimizer_name(OptimizerKind kind) {
  return std::find_if(kOptimizers.begin(), kOptimizers.end(),
                      [kind](const auto& entry) { return entry.second == kind; })
      ->first;
}

StepRange parse_step_range(const std::string& text) {
  constexpr int64_t kMostTracedSteps = 10'000;  // viewers cannot show more
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw ConfigError(format("\"{}\" is not of the form FIRST:LAST, such as 100:104", text));
  }
  const int64_t first = parse_integer(text.substr(0, colon), 1, kMaxSteps);
  const int64_t last = parse_integer(text.substr(colon + 1), first, kMaxSteps);
  if (last - first >= kMostTracedSteps) {
    throw ConfigError(
        format("\"{}\" are {} steps, more than the limit of {}; choose a shorter range", text,
               last - first + 1, kMostTracedSteps));
  }
  return {static_cast<uint64_t>(first), static_cast<uint64_t>(last)};
}

void describe(Schema& s, TrainOptions& o) {
  s.option("run", o.run, "DIR",
           "run directory, created if it does not exist and resumed if it does")
      .required()
      .free_on_resume()
      .from_rank0();
  describe_decay_now(s, o);
  describe_events(s, o);
  describe(s, o.tune);
  describe_settings(s, o);
  s.option("dashboard", o.dashboard, "serve the live page of the run from rank 0 while it trains")
      .free_on_resume()
      .from_rank0()
      .unrecorded();  // watching does not belong to a run, and a token must not leave this process
  describe(s, o.page, "dashboard-");
  s.example("reigen train --preset base --data data --run runs/first");
  s.example("reigen train --config configs/transformer-base-wmt16.yaml --data data --run runs/wmt");
  s.example("reigen train --run runs/first                      # resume it after a stop");
  s.example(
      "reigen train --run runs/first --decay-now 5000     # end it well, 5,000 steps from now");
  s.example("reigen train --from runs/first --data medical --run runs/medical --max-steps 2000");
  s.example("reigen train --preset base --data data --run runs/two --max-steps 50000 --workers 2");
  s.example("mpirun -n 4 -H vm1:2,vm2:2 reigen train --config run.yaml");
}

void describe_settings(Schema& s, TrainOptions& o) {
  s.option("preset", o.preset, "NAME", "model size: tiny, small, base or big").hyperparameter();
  describe(s, o.recipe);
  s.option("data", o.data, "DIR", "dataset directory, written by reigen prepare")
      .hyperparameter()
      .free_on_resume()
      .per_worker();
  describe_limits(s, o);
  s.option("seed", o.seed, "random seed for initial weights, data order and dropout", 0, INT64_MAX)
      .hyperparameter();
  describe_compute(s, o);
  s.option("log-every", o.log_every, "number of steps between log lines", 1, kMaxSteps)
      .free_on_resume();
  s.custom(timeline_option(o.timeline)).free_on_resume();
  describe_quiet(s, o.quiet, "; log.txt receives all messages").free_on_resume().from_rank0();
  describe(s, o.model);
  describe(s, o.dropout);
  describe_batch(s, o);
  describe_optimizer(s, o);
  describe_average(s, o);
  describe(s, o.schedule);
  describe_eval(s, o);
  describe_checkpoint(s, o);
  describe(s, o.decode);
  describe(s, o.workers);
}

TrainOptions resolve(TrainOptions options) {
  options.model = resolve_model(options.model, options.preset);
  options.schedule = resolve_schedule(options.schedule, options.model.width);
  if (options.max_steps == 0 && options.max_epochs == 0 && options.max_time == 0 &&
      options.eval.patience == 0) {
    throw ConfigError(
        "training would never end; give --max-steps, --max-epochs, --max-time or --eval.patience");
  }
  if (!options.timeline.empty() && options.max_steps > 0) {
    const StepRange range = parse_step_range(options.timeline);
    if (range.first > static_cast<uint64_t>(options.max_steps)) {
      throw ConfigError(format(
          "timeline {} begins after the last step, {}; trace earlier steps or raise max-steps",
          options.timeline, options.max_steps));
    }
  }
  if (!options.workers.replay.empty() && !options.workers.elastic) {
    throw ConfigError(
        "--replay repeats the changes of the workers of an elastic job; add --elastic");
  }
  if (options.workers.shares == Shares::kMeasured &&
      options.workers.compress.method == CompressMethod::kLocal) {
    throw ConfigError(
        "--shares measured cannot be combined with --compress local, which averages the weights of "
        "all workers alike; use --shares equal");
  }
  if (!options.checkpoint.copy_to.empty()) parse_copy_target(options.checkpoint.copy_to);
  if (!options.dashboard && options.page != PageOptions{}) {
    throw ConfigError(
        "dashboard-address, dashboard-port, dashboard-token and dashboard-token-file need the live "
        "page; add --dashboard");
  }
  check_fine_tune_options(options.tune, options.workers.shard_optimizer);
  if (options.eval.patience > 0 && options.eval.every == 0) {
    throw ConfigError(
        format("eval.patience is {} but eval.every is 0, which evaluates only at the end; set "
               "eval.every above 0",
               options.eval.patience));
  }
  if (options.eval.stop_on != StopMetric::kLoss && !options.eval.bleu) {
    const StopMetric metric = options.eval.stop_on;
    throw ConfigError(
        format("eval.stop-on is {} but eval.bleu is off, which translates the validation set; set "
               "eval.bleu=true or eval.stop-on=loss",
               metric == StopMetric::kBleu   ? "bleu"
               : metric == StopMetric::kChrf ? "chrf"
                                             : "command"));
  }
  if (options.eval.stop_on == StopMetric::kCommand && options.eval.command.empty()) {
    throw ConfigError("eval.stop-on is command but there is no eval.command; set it");
  }
  return options;
}

Json recorded_options(const TrainOptions& options) {
  TrainOptions copy = options;
  Schema schema("train", "");
  describe(schema, copy);
  TrainOptions defaults;
  Schema plain("train", "");
  describe(plain, defaults);
  // The file lists every option; one that is not recorded has its default there.
  Json recorded = plain.current();
  recorded.update(schema.recorded(), /*merge_objects=*/true);
  return recorded;
}

std::string config_file(const std::string& run) { return run + "/config.yaml"; }

std::optional<std::string> recorded_config(const TrainOptions& options) {
  const std::string path = config_file(options.run);
  const bool begun = path_exists(options.run + "/last");
  if (!path_exists(path) || (!begun && !options.data.empty())) return std::nullopt;
  return path;
}

std::optional<TrainOptions> read_recorded_options(const std::string& run) {
  const std::string path = config_file(run);
  if (!path_exists(path)) return std::nullopt;
  return parse_recorded_options(read_own_file(path, kMostConfigBytes), path);
}

TrainOptions parse_recorded_options(const std::string& yaml, const std::string& name) {
  TrainOptions options;
  Schema schema("train", "");
  describe(schema, options);
  parse_recorded(schema, options, yaml, name, Schema::UnknownKeys::kIgnore);
  return options;
}

void parse_recorded(Schema& schema, TrainOptions& options, const std::string& yaml,
                    const std::string& name, Schema::UnknownKeys unknown) {
  schema.parse_recorded(yaml, name, unknown);
  if (!schema.given_keys().contains("recipe")) options.recipe = Recipe::kClassic;
}

void drop_chosen_limit(TrainOptions& o, const GivenKeys& now) {
  if (!now || !o.max_steps_chosen) return;
  if (now->contains("max-steps")) {
    o.max_steps_chosen = false;
    return;
  }
  const bool by_epochs = now->contains("max-epochs") && o.max_epochs > 0;
  const bool by_patience = now->contains("eval.patience") && o.eval.patience > 0;
  if (!by_epochs && !by_patience) return;
  o.chosen = format("max-steps {}, which the recipe chose, is replaced by {}", o.max_steps,
                    by_epochs ? "max-epochs" : "eval.patience");
  o.max_steps = 0;
  o.max_steps_chosen = false;
  if (o.given) o.given->erase("max-steps");
}

std::vector<std::string> changed_settings(const Json& before, const TrainOptions& now) {
  TrainOptions copy = now;
  Schema schema("train", "");
  describe(schema, copy);
  Json with_recipe = before;
  if (!before.contains("recipe")) with_recipe["recipe"] = "classic";  // older than recipes
  return schema.changes_since(with_recipe);
}

std::vector<std::string> hyperparameter_keys() {
  TrainOptions options;
  Schema schema("train", "");
  describe(schema, options);
  return schema.hyperparameter_keys();
}

TrainOptions options_for_worker(const std::string& of_rank0, const TrainOptions& own) {
  TrainOptions copy = own;
  Schema mine("train", "");
  describe(mine, copy);
  TrainOptions options;
  Schema schema("train", "");
  describe(schema, options);
  schema.parse_yaml(of_rank0, "the options of rank 0");
  schema.parse_yaml(to_yaml(mine.own_values()), "the options of this worker");
  // Not recorded, but this worker may become rank 0.
  options.eval.command = own.eval.command;
  options.checkpoint.copy_to = own.checkpoint.copy_to;
  options.on_event = own.on_event;
  options.workers.remote_binary = own.workers.remote_binary;
  return options;
}

}  // namespace reigen
