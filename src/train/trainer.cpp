#include "train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "decode/beam_search.h"
#include "device/gpu_memory.h"
#include "model/memory.h"
#include "observe/identity.h"
#include "observe/memory.h"
#include "ops/gpu_ops.h"
#include "optim/schedule.h"
#include "train/checkpoint_writer.h"
#include "train/reporter.h"
#include "train/setup.h"
#include "train/stepper.h"

namespace reigen {
namespace {

constexpr const char* kAlgorithms = "algorithms.txt";
constexpr size_t kBatchesAhead = 3;
constexpr uint64_t kMostEvaluatedTokens = 8192;  // at once; more gain nothing
constexpr double kLeastLossScale = 0x1p-10;

enum class Reason { kNone, kMaxSteps, kMaxEpochs, kMaxTime, kPatience, kSignal };

const char* text_of(Reason reason) {
  switch (reason) {
    case Reason::kMaxSteps:
      return "max-steps";
    case Reason::kMaxEpochs:
      return "max-epochs";
    case Reason::kMaxTime:
      return "max-time";
    case Reason::kPatience:
      return "early stopping";
    case Reason::kSignal:
      return "signal";
    case Reason::kNone:
      break;
  }
  return "";
}

// One attempt at a run. The constructor resumes; run() goes from boundary to boundary: evaluate if
// due, save if due, stop if it is time, else one step.
class Trainer {
 public:
  Trainer(const TrainOptions& options, RunDirectory& run, std::string version);
  void run();

 private:
  void train();
  Reason reason_to_stop() const;
  double epoch_of(const Cursor& cursor) const;
  bool evaluation_due(Reason reason) const;
  DecodeOptions decoding() const;
  void evaluate();
  void note_scores(EvaluationRecord& record);
  void save();
  void collect(const std::optional<CheckpointRecord>& record);
  void adopt_device();
  void step();
  void drain();
  void finish_step();
  bool at_boundary() const;
  void check_divergence();
  [[noreturn]] void diverged(const std::string& what, const std::string& advice);
  void announce() const;
  void finish(Reason reason);
  void summarise() const;
  CheckpointFacts facts() const;
  double seconds() const { return earlier_seconds_ + watch_.seconds(); }

  void replay_algorithms();
  void record_algorithms();

  const TrainOptions& options_;
  RunDirectory& run_;
  std::string version_;
  Stopwatch watch_;
  OpenedDevice opened_;
  TrainingData data_;
  Transformer model_;
  MemoryPlan memory_;
  TrainState state_;
  bool resumed_ = false;
  double earlier_seconds_ = 0;
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<Prefetcher> input_;
  Cursor launched_;            // past the last batch that was put to work
  Stopwatch since_last_step_;  // was finished, or since what came between ended; on the CPU
  std::unique_ptr<CheckpointWriter> writer_;
  std::optional<EvaluationRecord> last_evaluation_;
  std::optional<uint64_t> saved_step_;
  bool save_wanted_ = false;
  double input_wait_ = 0;
  std::string algorithms_;
  uint64_t first_step_ = 0;
};

Trainer::Trainer(const TrainOptions& options, RunDirectory& run, std::string version)
    : options_(options),
      run_(run),
      version_(std::move(version)),
      opened_(open_device(options.device, static_cast<int>(options.threads))),
      data_(open_data(options)),
      model_(options.model, options.dropout, data_.vocabulary.size()) {
  check_model_for(opened_.device, options.model);
  std::optional<TrainState> found = resume_state(run, model_, data_, options);
  resumed_ = found.has_value();
  state_ = resumed_ ? std::move(*found) : first_state(model_, static_cast<uint64_t>(options.seed));
  Counters& counters = state_.counters;
  if (resumed_) {
    saved_step_ = counters.step;
    adopt_device();
  }
  memory_ = plan_memory(options, model_, data_, counters.micro_tokens, opened_);
  counters.threads = static_cast<uint64_t>(opened_.device.threads());
  counters.precision = name_of(opened_.precision);
  counters.micro_tokens = memory_.micro_tokens;
  first_step_ = counters.step;
  earlier_seconds_ = counters.seconds;
  run_.write("config.yaml", to_yaml(recorded_options(options)));
  reporter_ = std::make_unique<Reporter>(options, counters.step, counters.seconds);
  counters.attempt = reporter_->cut().attempts + 1;
  replay_algorithms();
  launched_ = counters.cursor;
  stepper_ = make_stepper(opened_.device, opened_.type, model_, options_, state_);
  writer_ = std::make_unique<CheckpointWriter>(run_, model_.layout(), data_.vocabulary,
                                               static_cast<size_t>(options.checkpoint.keep));
  BatchSize size = {.target_tokens = static_cast<uint64_t>(options.batch.target_tokens)};
  if (options.batch.pairs > 0) size = {.pairs = static_cast<uint64_t>(options.batch.pairs)};
  BatchStream stream(data_.train, static_cast<uint64_t>(options.seed), size);
  stream.seek(counters.cursor);
  StagePart stage;
  if (opened_.device.kind() == DeviceKind::kGpu) {
    stage = [this](const PackedBatch& part) -> std::shared_ptr<void> {
      return std::shared_ptr<BatchIndex>(model_.index(opened_.device, part, opened_.type));
    };
  }
  input_ = std::make_unique<Prefetcher>(data_.train, std::move(stream), memory_.micro_tokens,
                                        data_.vocabulary.bos(), kBatchesAhead, stage);
}

// A run goes on as it began where it can, and says so where it cannot.
void Trainer::adopt_device() {
  const Counters& counters = state_.counters;
  const Precision before = precision_of(counters.precision);
  if (options_.device.precision == Precision::kAuto) use_precision(opened_, before);
  if (opened_.precision != before) {
    log_warning(
        format("the run computed in {} before and does in {} now: it goes on, but not bit for bit "
               "as it would have",
               name_of(before), name_of(opened_.precision)));
  }
  const auto threads = static_cast<uint64_t>(opened_.device.threads());
  if (opened_.device.kind() == DeviceKind::kCpu && counters.threads != threads) {
    log_warning(
        format("the run used {} threads before and uses {} now: it goes on, but not bit "
               "for bit as it would have; --threads {} would",
               counters.threads, threads, counters.threads));
  }
}

// Two algorithms of the matrix library add in different orders, so a run keeps those it began with.
void Trainer::replay_algorithms() {
  GpuOps* gpu = opened_.device.gpu();
  if (gpu == nullptr) return;
  const std::string own = run_.file(kAlgorithms);
  const std::string path = resumed_ && path_exists(own) ? own : options_.algorithms;
  if (path.empty()) return;
  if (!gpu->replay_algorithms(read_file(path))) {
    log_warning(
        format("{}: was recorded with another version of the matrix library or on another GPU; "
               "algorithms are chosen anew, so results differ in rounding",
               path));
  }
}

void Trainer::record_algorithms() {
  const GpuOps* gpu = opened_.device.gpu();
  if (gpu == nullptr) return;
  std::string record = gpu->recorded_algorithms();
  if (record == algorithms_) return;
  run_.write(kAlgorithms, record);
  algorithms_ = std::move(record);
}

void Trainer::announce() const {
  const ModelOptions& m = options_.model;
  log_note(format("{} to {}: {} training pairs, {} pieces", data_.manifest.source_language,
                  data_.manifest.target_language, with_commas(data_.manifest.train_pairs()),
                  with_commas(data_.vocabulary.size())));
  log_note(format("model: width {}, {} heads, ffn {}, {}+{} layers, {} parameters", m.width,
                  m.heads, m.ffn_width, m.encoder_layers, m.decoder_layers,
                  with_commas(model_.layout().parameters())));
  const std::string batch =
      options_.batch.pairs > 0
          ? format("{} pairs", with_commas(static_cast<uint64_t>(options_.batch.pairs)))
          : format("{} target tokens",
                   with_commas(static_cast<uint64_t>(options_.batch.target_tokens)));
  log_note(format("a step: {}, at most {} tokens at once; memory {}", batch,
                  with_commas(memory_.micro_tokens), human_bytes(memory_.budget)));
  log_note(format("on {}", describe(opened_)));
  for (const std::string& key : ignored_settings(options_.schedule)) {
    log_warning(
        format("{} means nothing to schedule.kind {}", key, schedule_name(options_.schedule.kind)));
  }
  if (resumed_) {
    log_note(format("resuming {} after step {}", run_.path(), with_commas(first_step_)));
  } else {
    log_note(format("starting {}", run_.path()));
  }
}

double Trainer::epoch_of(const Cursor& cursor) const {
  const EpochOrder order(data_.train.corpora(), static_cast<uint64_t>(options_.seed), cursor.epoch);
  return static_cast<double>(cursor.epoch) +
         static_cast<double>(cursor.position) / static_cast<double>(order.size());
}

Reason Trainer::reason_to_stop() const {
  const Counters& c = state_.counters;
  if (interrupt_requested()) return Reason::kSignal;
  if (options_.max_steps > 0 && c.step >= static_cast<uint64_t>(options_.max_steps)) {
    return Reason::kMaxSteps;
  }
  if (options_.max_epochs > 0 && epoch_of(c.cursor) >= options_.max_epochs)
    return Reason::kMaxEpochs;
  if (options_.max_time > 0 && seconds() >= options_.max_time) return Reason::kMaxTime;
  if (options_.eval.patience > 0 &&
      c.evaluations_without_gain >= static_cast<uint64_t>(options_.eval.patience)) {
    return Reason::kPatience;
  }
  return Reason::kNone;
}

// At every multiple of eval.every, and at the end of a run.
bool Trainer::evaluation_due(Reason reason) const {
  const Counters& c = state_.counters;
  if (!data_.valid || c.step == 0 || c.evaluated_step == c.step) return false;
  if (reason == Reason::kSignal || c.skipped_in_row > 0) return false;
  const auto every = static_cast<uint64_t>(options_.eval.every);
  return reason != Reason::kNone || (every > 0 && c.step % every == 0);
}

void Trainer::note_scores(EvaluationRecord& record) {
  Counters& c = state_.counters;
  record.is_best_loss =
      std::isfinite(record.nll) && (!c.best_loss || record.nll < c.best_loss->value);
  if (record.is_best_loss) c.best_loss = {c.step, record.nll};
  record.is_best_bleu = record.bleu && (!c.best_bleu || *record.bleu > c.best_bleu->value);
  if (record.is_best_bleu) c.best_bleu = {c.step, *record.bleu};
  const bool gain =
      options_.eval.stop_on == StopMetric::kBleu ? record.is_best_bleu : record.is_best_loss;
  c.evaluations_without_gain = gain ? 0 : c.evaluations_without_gain + 1;
  c.evaluated_step = c.step;
  save_wanted_ = true;  // a checkpoint of this step knows that it was evaluated, and how well
}

// Searching may take what a step's activations do: they are given back while it runs.
DecodeOptions Trainer::decoding() const {
  DecodeOptions decode = options_.decode;
  if (opened_.device.kind() == DeviceKind::kGpu) return decode;  // asks what is free
  const double room =
      activation_bytes(options_.model, data_.vocabulary.size()).of_any(memory_.micro_tokens);
  const double each =
      decoding_bytes(options_.model, data_.vocabulary.size(), options_.decode.max_ratio);
  decode.batch_tokens = std::min(decoding_tokens(opened_.device, model_, opened_.type, decode),
                                 static_cast<int64_t>(room / each) + 1);
  return decode;
}

void Trainer::evaluate() {
  show_status("");
  stepper_->release_memory();
  ValidationPlan plan{.decode = options_.eval.bleu,
                      .sentences = static_cast<size_t>(options_.eval.sentences),
                      .samples = static_cast<size_t>(options_.eval.samples),
                      .micro_tokens = std::min(memory_.micro_tokens, kMostEvaluatedTokens),
                      .options = decoding()};
  EvaluationRecord record =
      validate(opened_.device, model_, stepper_->weights(), *data_.valid, data_.vocabulary, plan);
  record.step = state_.counters.step;
  note_scores(record);
  reporter_->evaluation(record);
  last_evaluation_ = record;
}

CheckpointFacts Trainer::facts() const {
  const Manifest& manifest = data_.manifest;
  CheckpointFacts facts;
  facts.step = state_.counters.step;
  facts.model = options_.model;
  facts.source_language = manifest.source_language;
  facts.target_language = manifest.target_language;
  const Json& clean = manifest.options.at("clean");
  facts.nfkc = clean.at("nfkc") && manifest.vocab.cuts_text;
  facts.whitespace = clean.at("whitespace");
  if (last_evaluation_ && last_evaluation_->step == facts.step) {
    if (std::isfinite(last_evaluation_->perplexity)) {
      facts.scores = {{"nll", last_evaluation_->nll}, {"perplexity", last_evaluation_->perplexity}};
    }
    if (last_evaluation_->bleu) facts.scores["bleu"] = *last_evaluation_->bleu;
    if (last_evaluation_->chrf) facts.scores["chrf"] = *last_evaluation_->chrf;
  }
  facts.training = {{"reigen", version_},
                    {"device", describe(opened_)},
                    {"data", data_.fingerprint},
                    {"state", to_json(state_.counters)},
                    {"options", recorded_options(options_)}};
  return facts;
}

void Trainer::collect(const std::optional<CheckpointRecord>& record) {
  if (record) reporter_->checkpoint(*record);
}

void Trainer::save() {
  state_.counters.seconds = seconds();
  reporter_->flush();
  collect(writer_->wait());
  record_algorithms();
  const bool on_gpu = opened_.device.kind() == DeviceKind::kGpu;
  writer_->save(state_, facts(), on_gpu ? stepper_.get() : nullptr);
  saved_step_ = state_.counters.step;
  save_wanted_ = false;
}

void Trainer::step() {
  Stopwatch watch;
  const ReadyBatch ready = input_->next();
  input_wait_ = watch.seconds();
  stepper_->start(ready);
  launched_ = ready.batch.end;
  while (stepper_->under_way() >= stepper_->most_under_way()) finish_step();
}

void Trainer::drain() {
  while (stepper_->under_way() > 0) finish_step();
}

// Whether anything but another step may come now. Everything that is under way is finished first.
bool Trainer::at_boundary() const {
  const uint64_t step = state_.counters.step + stepper_->under_way();
  auto due = [step](int64_t every) {
    return every > 0 && step % static_cast<uint64_t>(every) == 0;
  };
  if (interrupt_requested() || due(options_.eval.every) || due(options_.checkpoint.every)) {
    return true;
  }
  if (options_.max_steps > 0 && step >= static_cast<uint64_t>(options_.max_steps)) return true;
  if (options_.max_epochs > 0 && epoch_of(launched_) >= options_.max_epochs) return true;
  return options_.max_time > 0 && seconds() >= options_.max_time;
}

void Trainer::finish_step() {
  StepRecord record = stepper_->finish();
  if (opened_.device.kind() == DeviceKind::kCpu) {
    record.spans.insert(record.spans.begin(), {"input", input_wait_});
    record.seconds = since_last_step_.lap();
  }
  record.epoch = epoch_of(state_.counters.cursor);
  record.time = unix_now();
  state_.counters.step_seconds += record.seconds;
  reporter_->step(record);
  collect(writer_->finished());
  check_divergence();
}

void Trainer::check_divergence() {
  const Counters& c = state_.counters;
  const bool fp16 = opened_.precision == Precision::kFp16;
  if (c.skipped_in_row >= static_cast<uint64_t>(options_.optimizer.max_skipped)) {
    diverged(format("loss or gradient was not finite for {} steps in a row, up to step {}",
                    c.skipped_in_row, c.step),
             fp16 ? "--precision bf16 or fp32 has more range; else lower the learning rate, "
                    "lengthen its warm-up or set optimizer.clip"
                  : "lower the learning rate, lengthen its warm-up or set optimizer.clip");
  }
  if (fp16 && c.loss_scale.scale > 0 && c.loss_scale.scale < kLeastLossScale) {
    diverged(format("the fp16 loss scale has fallen to {:.2g} by step {}, {} steps were skipped: "
                    "gradients overflow however little they are scaled",
                    c.loss_scale.scale, c.step, c.skipped),
             "use --precision bf16 or fp32, or lower the learning rate");
  }
}

void Trainer::diverged(const std::string& what, const std::string& advice) {
  collect(writer_->wait());
  reporter_->end({.step = state_.counters.step, .reason = "diverged", .seconds = watch_.seconds()});
  throw DivergedError(format("{}; {}; {}", what,
                             run_.checkpoints().empty()
                                 ? "no checkpoint was written yet"
                                 : format("the last good checkpoint is {}/last", run_.path()),
                             advice));
}

void Trainer::run() {
  try {
    train();
  } catch (const DeviceError& e) {
    const std::string text =
        format("{}; {}", e.what(),
               run_.linked("last") ? format("`reigen train --run {}` goes on from step {}",
                                            run_.path(), with_commas(*run_.linked("last")))
                                   : "nothing was saved yet");
    log_copy_only(format("ended: {}", text));
    throw DeviceError(text);
  } catch (const Error& e) {
    log_copy_only(format("ended: {}", e.what()));
    throw;
  }
}

void Trainer::train() {
  announce();
  StartRecord start;
  start.step = first_step_;
  start.version = version_;
  start.host = host_name();
  start.process = static_cast<uint64_t>(getpid());
  start.threads = state_.counters.threads;
  start.device = describe(opened_);
  reporter_->start(start);
  Reason reason = Reason::kNone;
  since_last_step_ = {};
  while (true) {
    if (!at_boundary()) {
      step();
      continue;
    }
    drain();
    reason = reason_to_stop();
    if (evaluation_due(reason)) {
      try {
        evaluate();
      } catch (const Interrupted&) {  // evaluated again when the run goes on
      }
      reason = reason_to_stop();
    }
    const Counters& c = state_.counters;
    // After a step that was skipped the one before is worth more, unless it is the end.
    const bool due =
        c.step % static_cast<uint64_t>(options_.checkpoint.every) == 0 && c.skipped_in_row == 0;
    const bool saved = saved_step_ == c.step;
    const bool stopping = reason != Reason::kNone;
    if (c.step > 0 && (save_wanted_ || ((due || stopping) && !saved))) save();
    if (stopping) break;
    since_last_step_ = {};
    step();
  }
  finish(reason);
}

void Trainer::finish(Reason reason) {
  const std::optional<CheckpointRecord> last = writer_->wait();
  collect(last);
  reporter_->end(
      {.step = state_.counters.step, .reason = text_of(reason), .seconds = watch_.seconds()});
  if (last && !last->error.empty()) {
    throw IoError(format("the last checkpoint was not written: {}; {}", last->error,
                         run_.checkpoints().empty()
                             ? "there is no other"
                             : format("the one before it is {}/last", run_.path())));
  }
  if (reason == Reason::kSignal) {
    const std::string saved = saved_step_
                                  ? format("saved up to step {}, `reigen train --run {}` goes on",
                                           *saved_step_, run_.path())
                                  : "nothing was trained yet";
    throw Interrupted(format("stopped by a signal after step {}; {}", state_.counters.step, saved));
  }
  log_note(format("done: {} reached", text_of(reason)));
  summarise();
}

void Trainer::summarise() const {
  const Counters& c = state_.counters;
  const uint64_t steps = c.step - first_step_;
  std::string text;
  auto row = [&](const char* name, const std::string& value) {
    text += format("  {:<14}{}\n", name, value);
  };
  row("steps", format("{} ({:.2f} epochs)", with_commas(c.step), epoch_of(c.cursor)));
  std::string time = human_seconds(seconds());
  if (earlier_seconds_ > 0)
    time += format(", {} since it was resumed", human_seconds(watch_.seconds()));
  row("time", time);
  if (c.step > 0) {
    row("average step", human_seconds(c.step_seconds / static_cast<double>(c.step)));
  }
  if (steps == 0) row("this time", "nothing to do: the run had reached its limit");
  row("tokens",
      format("{} source, {} target", with_commas(c.source_tokens), with_commas(c.target_tokens)));
  if (c.skipped > 0) row("skipped steps", with_commas(c.skipped));
  if (c.best_loss) {
    row("best loss", format("{:.4f} (perplexity {:.2f}) at step {}", c.best_loss->value,
                            std::exp(c.best_loss->value), with_commas(c.best_loss->step)));
  }
  if (c.best_bleu) {
    row("best BLEU",
        format("{:.2f} at step {}", c.best_bleu->value, with_commas(c.best_bleu->step)));
  }
  const bool on_gpu = opened_.device.kind() == DeviceKind::kGpu;
  const uint64_t peak = on_gpu ? gpu_peak_bytes() : process_memory().peak_resident_bytes;
  row("peak memory", format("{} of {}{}", human_bytes(peak), human_bytes(memory_.budget),
                            on_gpu ? " on the GPU" : ""));
  const bool best = c.best_bleu.has_value() || c.best_loss.has_value();
  row("checkpoints", format("{}/last{}", run_.path(), best ? ", best-*" : ""));
  row("log", run_.file("log.txt"));
  row("TensorBoard", format("tensorboard --logdir {}", run_.file("tensorboard")));
  text.pop_back();
  log_note(text);
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

void train(const TrainOptions& given, const std::string& version) {
  if (given.data.empty()) {
    throw ConfigError("--data is required (directory written by reigen prepare)");
  }
  TrainOptions options = resolve(given);
  check_schedule(options.schedule);
  options.data = absolute(options.data);
  ignore_hangup();
  set_quiet(options.quiet);
  read_manifest(options.data);  // a wrong --data leaves no empty run behind
  RunDirectory run(options.run);
  Trainer(options, run, version).run();
}

}  // namespace reigen
