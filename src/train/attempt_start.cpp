// How an attempt begins: the state it goes on from, what all workers agree on, what was measured.
#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "train/attempt.h"
#include "train/workers/agreements.h"
#include "train/workers/algorithm_records.h"

namespace reigen {
namespace {

constexpr double kPreflightSeconds = 4;
constexpr size_t kBatchesAhead = 3;

}  // namespace

Attempt::Attempt(const TrainOptions& options, RunDirectory* run, Job& job, std::string version)
    : options_(options),
      job_(job),
      version_(std::move(version)),
      opened_(open_device(options.device, static_cast<int>(options.threads))),
      data_(open_data(options)),
      model_(options.model, options.dropout, data_.vocabulary.size()) {
  check_model_for(opened_.device, options.model);
  if (!job.alone()) {
    check_transport(opened_.device, options);
    check_sharding(opened_.device, options.workers);
  }
  const Stopwatch others;
  check_same_data(job, data_.fingerprint, options.data);
  data_seconds_ = data_.seconds + others.seconds();
  if (run != nullptr) writer_ = std::make_unique<RunWriter>(*run, options, data_, model_);
  resume(run);
  Counters& counters = state_.counters;
  if (resumed_) {
    saved_step_ = counters.step;
    adopt_device();
  }
  const bool sharded = options.workers.shard_optimizer && !job.first();
  memory_ = plan_memory(options, model_, data_, counters.micro_tokens, opened_,
                        {.workers = job.size(),
                         .on_gpu = workers_on_gpu(job, opened_.device),
                         .moment_shards = sharded ? job.size() : 1});
  counters.threads = static_cast<uint64_t>(opened_.device.threads());
  counters.precision = name_of(opened_.precision);
  counters.micro_tokens = memory_.micro_tokens;
  first_step_ = counters.step;
  earlier_seconds_ = counters.seconds;
  if (writer_) writer_->open(counters);
  replay_algorithms(job_, opened_.device, writer_.get(), options_, resumed_);
  launched_ = counters.cursor;
  capacity_ = measure_capacity(job_, opened_);
  if (!job_.alone()) preflight();
  stepper_ = make_stepper(opened_.device, opened_.type, model_, options_, state_, job_,
                          transport_.direct.get());
  traced_ = TracedSteps::of(job_, options_.timeline);
  if (traced_) stepper_->trace(&traced_->timeline());
  make_input();
}

// The first worker finds the state to start from; the others get it.
void Attempt::resume(RunDirectory* run) {
  std::optional<TrainState> found;
  if (run != nullptr) found = resume_state(*run, model_, data_, options_);
  double resumed[] = {found ? 1.0 : 0.0};
  job_.sum(resumed);
  resumed_ = resumed[0] > 0;
  state_ = found ? std::move(*found) : first_state(model_, static_cast<uint64_t>(options_.seed));
  if (!job_.alone()) share_state();
}

// A new run's first weights are a pure function of the seed, so they travel only where a machine
// computes them differently.
void Attempt::share_state() {
  const size_t bytes = state_.parameters.size() * sizeof(float);
  const uint64_t print = xxh3(state_.parameters.data(), bytes);
  const std::string mine = resumed_ ? std::to_string(job_.rank()) : std::to_string(print);
  bool same = true;
  for (const std::string& other : job_.gather(mine)) same = same && other == mine;
  if (job_.broadcast(same ? "same" : "other") == "same") return;
  job_.broadcast(state_.parameters);
  if (!resumed_) return;
  job_.broadcast(state_.first_moment);
  job_.broadcast(state_.second_moment);
  state_.counters =
      counters_from_json(Json::parse(job_.broadcast(one_line(to_json(state_.counters)))));
}

// What the workers and the link between them can do, before time is wasted on it.
void Attempt::preflight() {
  make_input();
  const ReadyBatch ready = input_->next();
  input_.reset();
  Counters& counters = state_.counters;
  transport_ =
      choose_transport(job_, opened_.device, options_, known_compression(options_, counters));
  const Preflight flight = measure_job(job_, transport_.direct.get(), opened_, model_, options_,
                                       state_.parameters, ready, kPreflightSeconds);
  const ParameterLayout& layout = model_.layout();
  choose_compression(options_, flight, layout, counters);
  keep_to(transport_, parse_compress(counters.compress));
  choose_bucket(job_, options_.workers, layout.elements(),
                transport_.direct ? flight.direct_curve : flight.curve, counters);
  preflight_ = report_of(flight, layout, options_, counters);
}

void Attempt::make_input() {
  BatchSize size = {.target_tokens = static_cast<uint64_t>(options_.batch.target_tokens)};
  if (options_.batch.pairs > 0) size = {.pairs = static_cast<uint64_t>(options_.batch.pairs)};
  BatchStream stream(data_.train, static_cast<uint64_t>(options_.seed), size);
  stream.seek(state_.counters.cursor);
  PrefetchOptions prefetch{.micro_tokens = memory_.micro_tokens,
                           .bos = data_.vocabulary.bos(),
                           .depth = kBatchesAhead,
                           .rank = job_.rank(),
                           .workers = job_.size()};
  if (on_gpu()) {
    prefetch.stage = [this](const PackedBatch& part) -> std::shared_ptr<StagedBatch> {
      return std::shared_ptr<BatchIndex>(model_.index(opened_.device, part, opened_.type));
    };
  }
  input_ = std::make_unique<Prefetcher>(data_.train, std::move(stream), std::move(prefetch));
}

// A run goes on as it began where it can, and says so where it cannot.
void Attempt::adopt_device() {
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

AttemptFacts Attempt::attempt_facts() const {
  AttemptFacts facts;
  facts.version = version_;
  facts.device = describe(opened_);
  facts.threads = state_.counters.threads;
  facts.worker_count = static_cast<uint64_t>(job_.size());
  facts.workers = describe(job_, state_.counters);
  if (!transport_.text.empty()) facts.workers += "; " + transport_.text;
  facts.forecast_line = preflight_.line;
  if (!job_.alone()) facts.forecast = preflight_.forecast;
  facts.capacity = capacity_;
  facts.setup_seconds = watch_.seconds();
  facts.data_seconds = data_seconds_;
  for (const std::string& text :
       {preflight_.warning, preflight_.slow_warmup, preflight_.slow_worker}) {
    if (!text.empty()) facts.warnings.push_back(text);
  }
  facts.first_step = first_step_;
  facts.resumed = resumed_;
  facts.memory = memory_;
  return facts;
}

}  // namespace reigen
