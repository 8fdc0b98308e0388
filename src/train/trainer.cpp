#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "decode/beam_search.h"
#include "device/gpu_memory.h"
#include "model/memory.h"
#include "observe/identity.h"
#include "observe/live_server.h"
#include "observe/memory.h"
#include "ops/gpu_ops.h"
#include "optim/schedule.h"
#include "train/agreements.h"
#include "train/algorithm_records.h"
#include "train/gpu_transport.h"
#include "train/preflight.h"
#include "train/rank_logs.h"
#include "train/run_keeper.h"
#include "train/send_data.h"
#include "train/setup.h"
#include "train/stepper.h"
#include "train/traced_steps.h"

namespace reigen {
namespace {

constexpr double kPreflightSeconds = 4;
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

class AtExit {
 public:
  explicit AtExit(std::function<void()> call) : call_(std::move(call)) {}
  ~AtExit() { call_(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  std::function<void()> call_;
};

// One attempt at a run. The constructor resumes; run() goes from boundary to boundary: evaluate if
// due, save if due, stop if it is time, else one step. All workers do the same at the same step;
// the first one keeps the run.
class Trainer {
 public:
  // `run` is null for workers that do not keep it.
  Trainer(const TrainOptions& options, RunDirectory* run, Crew& crew, std::string version);
  void run();

 private:
  void resume(RunDirectory* run);
  void share_state();
  void adopt_device();
  void preflight();
  void make_input();
  void train();
  Reason reason_to_stop() const;
  double epoch_of(const Cursor& cursor) const;
  bool evaluation_due(Reason reason) const;
  DecodeOptions decoding() const;
  void evaluate();
  void note_scores(EvaluationRecord& record);
  void save();
  void step();
  void drain();
  void finish_step();
  void tell(const StepRecord& record);
  void exchange_logs();
  bool at_boundary() const;
  void check_divergence();
  [[noreturn]] void diverged(const std::string& what, const std::string& advice);
  AttemptFacts attempt_facts() const;
  void finish(Reason reason);
  double seconds() const { return earlier_seconds_ + watch_.seconds(); }
  bool interrupted() const;
  bool time_over() const;
  bool on_gpu() const { return opened_.device.kind() == DeviceKind::kGpu; }

  const TrainOptions& options_;
  Crew& crew_;
  std::string version_;
  Stopwatch watch_;
  OpenedDevice opened_;
  TrainingData data_;
  Transformer model_;
  MemoryPlan memory_;
  TrainState state_;
  bool resumed_ = false;
  double earlier_seconds_ = 0;
  std::unique_ptr<RunKeeper> keeper_;  // the first worker's
  std::unique_ptr<RankLogs> logs_;
  GpuTransport transport_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<TracedSteps> traced_;  // where a timeline was asked for
  std::unique_ptr<Prefetcher> input_;
  Cursor launched_;            // past the last batch that was put to work
  Stopwatch since_last_step_;  // was finished, or since what came between ended; on the CPU
  Stopwatch spans_;            // likewise; its laps are what is not the stepper's
  PreflightReport flight_;
  double capacity_ = 0;
  std::optional<uint64_t> saved_step_;
  bool save_wanted_ = false;
  double input_wait_ = 0;
  double observe_ = 0;  // seconds spent on telling of the last step
  uint64_t first_step_ = 0;
};

Trainer::Trainer(const TrainOptions& options, RunDirectory* run, Crew& crew, std::string version)
    : options_(options),
      crew_(crew),
      version_(std::move(version)),
      opened_(open_device(options.device, static_cast<int>(options.threads))),
      data_(open_data(options)),
      model_(options.model, options.dropout, data_.vocabulary.size()) {
  check_model_for(opened_.device, options.model);
  check_same_data(crew, data_.fingerprint, options.data);
  if (run != nullptr) keeper_ = std::make_unique<RunKeeper>(*run, options, data_, model_);
  resume(run);
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
  if (keeper_) keeper_->open(counters);
  replay_algorithms(crew_, opened_.device, keeper_.get(), options_, resumed_);
  launched_ = counters.cursor;
  capacity_ = measure_capacity(crew_, opened_);
  if (!crew_.alone()) preflight();
  transport_ = choose_transport(crew_, opened_.device, options_, counters.compress);
  stepper_ = make_stepper(opened_.device, opened_.type, model_, options_, state_, crew_,
                          transport_.direct.get());
  traced_ = TracedSteps::of(crew_, options_.timeline);
  if (traced_) stepper_->trace(&traced_->timeline());
  make_input();
}

// The first worker finds the state to start from; the others get it.
void Trainer::resume(RunDirectory* run) {
  std::optional<TrainState> found;
  if (run != nullptr) found = resume_state(*run, model_, data_, options_);
  double resumed[] = {found ? 1.0 : 0.0};
  crew_.sum(resumed);
  resumed_ = resumed[0] > 0;
  state_ = found ? std::move(*found) : first_state(model_, static_cast<uint64_t>(options_.seed));
  if (!crew_.alone()) share_state();
}

// A new run's first weights are a pure function of the seed, so they travel only where a machine
// computes them differently.
void Trainer::share_state() {
  const size_t bytes = state_.parameters.size() * sizeof(float);
  const uint64_t print = xxh3(state_.parameters.data(), bytes);
  const std::string mine = resumed_ ? std::to_string(crew_.rank()) : std::to_string(print);
  bool same = true;
  for (const std::string& other : crew_.gather(mine)) same = same && other == mine;
  if (crew_.broadcast(same ? "same" : "other") == "same") return;
  crew_.broadcast(state_.parameters);
  if (!resumed_) return;
  crew_.broadcast(state_.first_moment);
  crew_.broadcast(state_.second_moment);
  state_.counters =
      counters_from_json(Json::parse(crew_.broadcast(one_line(to_json(state_.counters)))));
}

// What the workers and the link between them can do, before time is wasted on it.
void Trainer::preflight() {
  make_input();
  const ReadyBatch ready = input_->next();
  input_.reset();
  const Preflight flight =
      measure_crew(crew_, opened_, model_, options_, state_.parameters, ready, kPreflightSeconds);
  const ParameterLayout& layout = model_.layout();
  choose_bucket(crew_, options_.workers, layout.elements(), flight.curve, state_.counters);
  choose_compression(options_, flight, layout, state_.counters);
  flight_ = report_of(flight, layout, options_, state_.counters);
}

void Trainer::make_input() {
  BatchSize size = {.target_tokens = static_cast<uint64_t>(options_.batch.target_tokens)};
  if (options_.batch.pairs > 0) size = {.pairs = static_cast<uint64_t>(options_.batch.pairs)};
  BatchStream stream(data_.train, static_cast<uint64_t>(options_.seed), size);
  stream.seek(state_.counters.cursor);
  PrefetchOptions prefetch{.micro_tokens = memory_.micro_tokens,
                           .bos = data_.vocabulary.bos(),
                           .depth = kBatchesAhead,
                           .rank = crew_.rank(),
                           .workers = crew_.size()};
  if (on_gpu()) {
    prefetch.stage = [this](const PackedBatch& part) -> std::shared_ptr<void> {
      return std::shared_ptr<BatchIndex>(model_.index(opened_.device, part, opened_.type));
    };
  }
  input_ = std::make_unique<Prefetcher>(data_.train, std::move(stream), std::move(prefetch));
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
  if (!on_gpu() && counters.threads != threads) {
    log_warning(
        format("the run used {} threads before and uses {} now: it goes on, but not bit "
               "for bit as it would have; --threads {} would",
               counters.threads, threads, counters.threads));
  }
}

AttemptFacts Trainer::attempt_facts() const {
  AttemptFacts facts;
  facts.version = version_;
  facts.device = describe(opened_);
  facts.threads = state_.counters.threads;
  facts.worker_count = static_cast<uint64_t>(crew_.size());
  facts.workers = describe(crew_, state_.counters);
  if (!transport_.text.empty()) facts.workers += "; " + transport_.text;
  facts.forecast_line = flight_.line;
  if (!crew_.alone()) facts.forecast = flight_.forecast;
  facts.capacity = capacity_;
  for (const std::string& text : {flight_.warning, flight_.slow_worker}) {
    if (!text.empty()) facts.warnings.push_back(text);
  }
  facts.first_step = first_step_;
  facts.resumed = resumed_;
  facts.memory = memory_;
  return facts;
}

double Trainer::epoch_of(const Cursor& cursor) const {
  const EpochOrder order(data_.train.corpora(), static_cast<uint64_t>(options_.seed), cursor.epoch);
  return static_cast<double>(cursor.epoch) +
         static_cast<double>(cursor.position) / static_cast<double>(order.size());
}

// Among several workers what was agreed on with the last step counts, so that all stop at the same.
bool Trainer::interrupted() const {
  return crew_.alone() ? interrupt_requested() : crew_.agreed().interrupted > 0;
}

bool Trainer::time_over() const {
  if (!crew_.alone()) return crew_.agreed().time_over > 0;
  return options_.max_time > 0 && seconds() >= options_.max_time;
}

Reason Trainer::reason_to_stop() const {
  const Counters& c = state_.counters;
  if (interrupted()) return Reason::kSignal;
  if (options_.max_steps > 0 && c.step >= static_cast<uint64_t>(options_.max_steps)) {
    return Reason::kMaxSteps;
  }
  if (options_.max_epochs > 0 && epoch_of(c.cursor) >= options_.max_epochs)
    return Reason::kMaxEpochs;
  if (time_over()) return Reason::kMaxTime;
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
  if (on_gpu()) return decode;  // asks what is free
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
  stepper_->swap_shared();
  const AtExit swap_back([this] { stepper_->swap_shared(); });
  EvaluationRecord record = validate(opened_.device, model_, stepper_->weights(), *data_.valid,
                                     data_.vocabulary, plan, &crew_);
  record.step = state_.counters.step;
  share_scores(crew_, record);
  note_scores(record);
  if (keeper_) keeper_->evaluation(record);
}

void Trainer::save() {
  state_.counters.seconds = seconds();
  state_.counters.kept_by = state_.counters.compress;
  stepper_->collect();
  stepper_->swap_shared();
  if (!check_same_weights(crew_, state_, stepper_->own_moments())) stepper_->put_state();
  keep_algorithms(crew_, opened_.device, keeper_.get());
  if (keeper_) keeper_->save(state_, stepper_->source());
  stepper_->swap_shared();
  state_.kept.clear();
  saved_step_ = state_.counters.step;
  save_wanted_ = false;
}

void Trainer::step() {
  if (traced_) traced_->begin(state_.counters.step + stepper_->under_way() + 1);
  const ReadyBatch ready = input_->next();
  input_wait_ = spans_.lap();
  if (traced_) traced_->timeline().lap("input");
  const bool late = crew_.first() && options_.max_time > 0 && seconds() >= options_.max_time;
  crew_.wish({interrupt_requested() ? 1.0 : 0.0, late ? 1.0 : 0.0});
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
  if (interrupted() || time_over() || due(options_.eval.every) || due(options_.checkpoint.every)) {
    return true;
  }
  if (options_.max_steps > 0 && step >= static_cast<uint64_t>(options_.max_steps)) return true;
  return options_.max_epochs > 0 && epoch_of(launched_) >= options_.max_epochs;
}

void Trainer::finish_step() {
  StepRecord record = stepper_->finish();
  if (stepper_->waits()) {
    record.seconds = since_last_step_.lap();
    spans_ = {};
    record.spans.insert(record.spans.begin(), {"input", input_wait_});
    record.spans.emplace_back("observe", std::exchange(observe_, 0));
  }
  record.epoch = epoch_of(state_.counters.cursor);
  record.time = unix_now();
  record.held_seconds = logs_->held().take();
  state_.counters.step_seconds += record.seconds;
  tell(record);
  check_divergence();
}

// Takes part of the next step's time, and is a span of it.
void Trainer::tell(const StepRecord& record) {
  if (keeper_) keeper_->step(record);
  logs_->step(record);
  if (crew_.alone() || record.step % static_cast<uint64_t>(options_.log_every) == 0) {
    exchange_logs();
  }
  if (traced_) traced_->after(record.step, keeper_.get());
  observe_ = spans_.lap();
}

void Trainer::exchange_logs() {
  const std::vector<std::string> lines = logs_->exchange();
  if (keeper_) keeper_->add_lines(lines);
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
  std::string saved = "the first worker says where the last checkpoint is";
  if (keeper_) {
    keeper_->end(state_.counters.step, "diverged", watch_.seconds());
    saved = keeper_->last_checkpoint();
  }
  throw DivergedError(format("{}; {}; {}", what, saved, advice));
}

void Trainer::run() {
  // What is not the run's own fault can be gone on from.
  auto with_way_on = [this](const Error& e) {
    std::string text = e.what();
    if (keeper_) text += "; " + keeper_->way_on();
    log_copy_only(format("ended: {}", text));
    return text;
  };
  try {
    train();
  } catch (const DeviceError& e) {
    throw DeviceError(with_way_on(e));
  } catch (const CommError& e) {
    throw CommError(with_way_on(e));
  } catch (const Error& e) {
    log_copy_only(format("ended: {}", e.what()));
    throw;
  }
}

void Trainer::train() {
  if (keeper_) keeper_->announce(attempt_facts());
  logs_ = std::make_unique<RankLogs>(crew_, on_gpu());
  Reason reason = Reason::kNone;
  since_last_step_ = spans_ = {};
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
    since_last_step_ = spans_ = {};
    observe_ = 0;
    step();
  }
  finish(reason);
}

void Trainer::finish(Reason reason) {
  logs_->stop_sampling();
  exchange_logs();
  if (traced_) traced_->after(state_.counters.step, keeper_.get(), true);
  traced_.reset();
  if (transport_.direct) crew_.check(transport_.direct->leave());
  crew_.leave();
  state_.counters.seconds = seconds();
  if (!keeper_) return;
  const Counters& c = state_.counters;
  keeper_->finish(c.step, text_of(reason), watch_.seconds());
  if (reason == Reason::kSignal) {
    const std::string saved = saved_step_
                                  ? format("saved up to step {}, `reigen train --run {}` goes on",
                                           *saved_step_, keeper_->run().path())
                                  : "nothing was trained yet";
    throw Interrupted(format("stopped by a signal after step {}; {}", c.step, saved));
  }
  log_note(format("done: {} reached", text_of(reason)));
  const uint64_t peak = on_gpu() ? gpu_peak_bytes() : process_memory().peak_resident_bytes;
  keeper_->summarise(c, epoch_of(c.cursor), watch_.seconds(), static_cast<double>(peak));
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::unique_ptr<LiveServer> serve_page(const TrainOptions& options) {
  return std::make_unique<LiveServer>(LiveServerOptions{.run = options.run,
                                                        .address = options.page.address,
                                                        .port = static_cast<int>(options.page.port),
                                                        .token = options.page.token,
                                                        .beside_work = true});
}

}  // namespace

void train(const TrainOptions& given, const std::string& version, Crew& crew) {
  TrainOptions options = given;
  if (crew.first()) {
    if (options.data.empty()) {
      throw ConfigError("--data is required (directory written by reigen prepare)");
    }
    options = resolve(options);
    check_schedule(options.schedule);
    options.data = absolute(options.data);
  }
  options = shared_options(crew, options);
  options.data = absolute(options.data);
  ignore_hangup();
  set_quiet(options.quiet || !crew.first());
  if (options.workers.send_data) send_data(crew, options.data);
  read_manifest(options.data);  // a wrong --data leaves no empty run behind
  std::optional<RunDirectory> run;
  if (crew.first()) run.emplace(options.run);
  std::unique_ptr<LiveServer> page;
  if (run && options.dashboard) page = serve_page(options);
  Trainer trainer(options, run ? &*run : nullptr, crew, version);
  if (page) log_note(format("the run is shown at {}", page->url()));
  trainer.run();
}

}  // namespace reigen
