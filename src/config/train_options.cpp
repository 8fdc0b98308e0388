#include "config/train_options.h"

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "config/units.h"

namespace reigen {
namespace {

void describe_where(Schema& s, TrainOptions& o) {
  s.option("preset", o.preset, "NAME", "sizes of the model: tiny, small, base or big");
  s.option("data", o.data, "DIR", "directory written by reigen prepare");
  s.option("max-steps", o.max_steps, "stop after this many optimizer steps; 0 for no limit", 0,
           kMaxSteps);
  s.option("max-epochs", o.max_epochs, "stop after this many passes over the data; 0 for no limit",
           0, 1e9);
  s.custom(seconds_option("max-time", o.max_time,
                          "stop after training for this long in all; 0 for no limit"));
  s.option("seed", o.seed, "of the first weights, the order of the data and dropout", 0, INT64_MAX);
  describe(s, o.device);
  s.option("algorithms", o.algorithms, "FILE",
           "algorithms.txt of a run on the same kind of GPU: the same choices of matrix algorithms "
           "give the same bits; chosen by timing when not given");
  s.option("threads", o.threads,
           "threads to use, 0 for all cores; the same number gives the same bits", 0, 1024);
  s.custom(
      bytes_option("memory", o.memory,
                   "most memory to use, on a GPU its own; micro-batches are sized to it; 0 for "
                   "half of what is free when the run starts, nine tenths on a GPU"));
  s.option(
      "micro-tokens", o.micro_tokens,
      "most source and target tokens in a micro-batch; 0 for 4096 on the CPU, a whole batch on "
      "a GPU, or what the memory allows",
      0, 1'000'000'000);
  s.option("log-every", o.log_every, "steps from one log line to the next", 1, kMaxSteps);
  s.custom({.key = "timeline",
            .value_name = "FIRST:LAST",
            .help = "write what these steps did, on all workers by one clock, to "
                    "RUN/timeline-FIRST-LAST.json for Perfetto or chrome://tracing",
            .assign =
                [&o](const Json& value) {
                  const std::string text = scalar(value);
                  if (!text.empty()) parse_step_range(text);
                  o.timeline = text;
                },
            .current = [&o] { return Json(o.timeline); }});
  s.option("quiet", o.quiet, "no progress, only warnings and errors; log.txt has the rest");
}

void describe_batch(Schema& s, TrainOptions& o) {
  s.option("batch.target-tokens", o.batch.target_tokens,
           "target tokens, ends of sentences included, in an optimizer step", 1, 1'000'000'000);
  s.option("batch.pairs", o.batch.pairs,
           "sentence pairs in an optimizer step, instead of counting tokens; 0 for tokens", 0,
           1'000'000'000);
}

void describe_optimizer(Schema& s, TrainOptions& o) {
  s.choice("optimizer.kind", o.optimizer.kind, "how gradients become updates",
           {{"adam", OptimizerKind::kAdam}, {"adamw", OptimizerKind::kAdamW}});
  s.option("optimizer.beta1", o.optimizer.beta1, "decay of the first moment", 0, 0.999999);
  s.option("optimizer.beta2", o.optimizer.beta2, "decay of the second moment", 0, 0.999999999);
  s.option("optimizer.epsilon", o.optimizer.epsilon, "keeps the division finite", 1e-20, 1);
  s.option("optimizer.weight-decay", o.optimizer.weight_decay, "adamw: decoupled weight decay", 0,
           10);
  s.option("optimizer.clip", o.optimizer.clip,
           "scale gradients down to this global norm; 0 for off", 0, 1e9);
  s.option("optimizer.max-skipped", o.optimizer.max_skipped,
           "stop after this many steps in a row whose loss or gradient was not finite", 1,
           1'000'000);
  s.choice("optimizer.loss-scaling", o.loss_scaling,
           "fp16: how the loss is scaled so that small gradients survive: backoff halves the scale "
           "when a gradient overflows and doubles it after 2,000 steps without; logmax follows the "
           "largest gradients seen",
           {{"backoff", LossScalePolicy::kBackoff}, {"logmax", LossScalePolicy::kLogMax}});
  s.option("smoothing", o.smoothing, "label smoothing", 0, 0.9);
}

void describe_eval(Schema& s, TrainOptions& o) {
  s.option("eval.every", o.eval.every,
           "steps from one evaluation on the validation set to the next; 0 for only at the end", 0,
           kMaxSteps);
  s.option("eval.bleu", o.eval.bleu, "translate the validation set and score BLEU and chrF");
  s.option("eval.sentences", o.eval.sentences, "translate only the first ones; 0 for all", 0,
           1'000'000'000);
  s.option("eval.samples", o.eval.samples, "translations to show at each evaluation", 0, 100);
  s.option("eval.patience", o.eval.patience,
           "stop after this many evaluations without a better score; 0 for never", 0, 1'000'000);
  s.choice("eval.stop-on", o.eval.stop_on, "the score that patience is about",
           {{"loss", StopMetric::kLoss}, {"bleu", StopMetric::kBleu}});
  s.option("checkpoint.every", o.checkpoint.every, "steps from one checkpoint to the next", 1,
           kMaxSteps);
  s.option("checkpoint.keep", o.checkpoint.keep,
           "how many of the latest to keep, beside the best by loss and by BLEU", 1, 1'000'000);
}

// A change of these leaves the course of training as it was.
constexpr std::array kFree = {"run",
                              "data",
                              "max-steps",
                              "max-epochs",
                              "max-time",
                              "device",
                              "precision",
                              "algorithms",
                              "threads",
                              "memory",
                              "log-every",
                              "quiet",
                              "eval",
                              "decode",
                              "checkpoint",
                              "optimizer.max-skipped",
                              "workers",
                              "hosts",
                              "ssh",
                              "remote-binary",
                              "copy-binary",
                              "interface",
                              "compress",
                              "compress-warmup",
                              "bucket",
                              "start-within",
                              "silence",
                              "stall",
                              "send-data",
                              "shard-optimizer",
                              "detach",
                              "transport",
                              "timeline",
                              "dashboard",
                              "dashboard-address",
                              "dashboard-port",
                              "dashboard-token"};

void compare(const Json& before, const Json& now, const std::string& prefix,
             std::vector<std::string>& changes) {
  for (const auto& [key, value] : now.items()) {
    const std::string path = prefix + key;
    if (std::find(kFree.begin(), kFree.end(), path) != kFree.end()) continue;
    if (!before.contains(key)) continue;  // an option that did not exist when the run began
    if (value.is_object()) {
      compare(before[key], value, path + ".", changes);
    } else if (before[key] != value) {
      changes.push_back(
          format("{} was {} and is {} now", path, one_line(before[key]), one_line(value)));
    }
  }
}

}  // namespace

StepRange parse_step_range(const std::string& text) {
  constexpr int64_t kMostSteps = 10'000;  // a viewer takes no more
  const size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw ConfigError(format("\"{}\" is not FIRST:LAST, such as 100:104", text));
  }
  const int64_t first = parse_integer(text.substr(0, colon), 1, kMaxSteps);
  const int64_t last = parse_integer(text.substr(colon + 1), first, kMaxSteps);
  if (last - first >= kMostSteps) {
    throw ConfigError(format("\"{}\" are more than {} steps", text, kMostSteps));
  }
  return {static_cast<uint64_t>(first), static_cast<uint64_t>(last)};
}

void describe(Schema& s, TrainOptions& o) {
  s.option("run", o.run, "DIR",
           "directory of the run: made when it is not there, resumed when it is")
      .required();
  describe_settings(s, o);
  s.option("dashboard", o.dashboard,
           "serve the live page of the run while it trains, from the first worker");
  describe(s, o.page, "dashboard-");
  s.example("reigen train --preset base --data data --run runs/first --max-steps 50000");
  s.example("reigen train --config configs/transformer-base-wmt16.yaml --data data --run runs/wmt");
  s.example("reigen train --run runs/first --max-steps 80000    # go on with it");
  s.example("reigen train --preset base --data data --run runs/two --max-steps 50000 --workers 2");
  s.example("mpirun -n 4 -H vm1:2,vm2:2 reigen train --config run.yaml");
}

void describe_settings(Schema& s, TrainOptions& o) {
  describe_where(s, o);
  describe(s, o.model);
  describe(s, o.dropout);
  describe_batch(s, o);
  describe_optimizer(s, o);
  describe(s, o.schedule);
  describe_eval(s, o);
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
      throw ConfigError(format("timeline {} begins after the last step, max-steps {}",
                               options.timeline, options.max_steps));
    }
  }
  if (!options.dashboard && options.page != PageOptions{}) {
    throw ConfigError("dashboard-address, -port and -token are of the live page; add --dashboard");
  }
  if (options.eval.patience > 0 && options.eval.every == 0) {
    throw ConfigError("eval.patience counts evaluations; set eval.every above 0");
  }
  if (options.eval.stop_on == StopMetric::kBleu && !options.eval.bleu) {
    throw ConfigError("eval.stop-on is bleu but eval.bleu is off; turn one of them");
  }
  return options;
}

Json recorded_options(const TrainOptions& options) {
  TrainOptions copy = options;
  copy.dashboard = false;  // who watches is no part of a run, and a token is nobody else's
  copy.page = {};
  Schema schema("train", "");
  describe(schema, copy);
  return schema.current();
}

std::string config_file(const std::string& run) { return run + "/config.yaml"; }

std::optional<std::string> recorded_config(const TrainOptions& options) {
  const std::string path = config_file(options.run);
  const bool begun = path_exists(options.run + "/last");
  if (!path_exists(path) || (!begun && !options.data.empty())) return std::nullopt;
  return path;
}

std::vector<std::string> changed_settings(const Json& before, const Json& now) {
  std::vector<std::string> changes;
  compare(before, now, "", changes);
  return changes;
}

}  // namespace reigen
