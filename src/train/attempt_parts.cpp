#include "train/attempt_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "optim/frozen.h"
#include "plan/preflight.h"
#include "train/directory/decay_request.h"
#include "train/last_step.h"
#include "train/run/starting_point.h"
#include "train/run/take_over.h"
#include "train/workers/agreements.h"
#include "train/workers/algorithm_records.h"
#include "train/workers/join.h"
#include "train/writer_change.h"

namespace reigen {
namespace {

constexpr size_t kBatchesAhead = 3;

// The part of the state that rank 0 has read from a checkpoint: none in a new run, whose initial
// weights are a pure function of the seed and are sent only where a machine computes them
// differently.
enum class FromCheckpoint { kNothing, kWeights, kAll };

void share_state(Job& job, TrainState& state, FromCheckpoint read) {
  const size_t bytes = state.parameters.size() * sizeof(float);
  const uint64_t print = xxh3(state.parameters.data(), bytes);
  const bool differs = read != FromCheckpoint::kNothing || job.broadcast(print) != print;
  if (!job.any(differs)) return;
  job.broadcast(state.parameters);
  if (!state.average.empty()) job.broadcast(state.average);
  if (read == FromCheckpoint::kNothing) return;
  if (read == FromCheckpoint::kAll) {
    job.broadcast(state.first_moment);
    job.broadcast(state.second_moment);
  }
  read_manifest_state(Json::parse(job.broadcast(one_line(manifest_state(state)))), state);
}

// With a new --max-steps a run continues by its schedule, also after a decay that has ended it.
bool cancel_decay_of_other_limit(TrainState& state, const RunDirectory& run,
                                 const TrainOptions& options) {
  Choices& choices = state.choices;
  const auto limit = static_cast<uint64_t>(options.max_steps);
  if (!choices.decay.active() || choices.decay_limit == limit) return false;
  choices.decay = {};
  state.counters.evaluations_without_gain = 0;  // a stall that began it would end the run now
  remove_decay_request(run.lasting_path());
  return true;
}

// The average begins with the first weights, or with those of the checkpoint where ema.decay is
// new.
void begin_average(const TrainOptions& options, TrainState& state) {
  if (options.ema_decay == 0) {
    state.average.clear();
  } else if (state.average.empty()) {
    state.average = state.parameters;
    state.counters.average_better = false;  // it has no score yet
  }
}

// A limit that changes after the decay has begun brings the learning rate back up, which is worth a
// warning. `before`: the decay that the checkpoint records.
std::string rising_rate(const AttemptParts& parts, const std::string& checkpoint,
                        const Decay& before) {
  const TrainOptions& now = parts.options;
  const Decay& decay = parts.state.choices.decay;
  const uint64_t step = parts.state.counters.step;
  const Json recorded = read_checkpoint_facts(checkpoint).training.at("options");
  TrainOptions old = parse_recorded_options(one_line(recorded), checkpoint);
  const bool same_end = old.max_steps == now.max_steps && old.max_epochs == now.max_epochs &&
                        before.end() == decay.end();
  if (same_end || step == 0) return "";
  old.schedule = resolve_schedule(old.schedule, old.model.width);
  old.schedule.last_step = planned_last_step(old, parts.data.train);
  const double last = learning_rate(old.schedule, step, before);
  const double planned = learning_rate(old.schedule, step + 1, before);
  const double next = learning_rate(now.schedule, step + 1, decay);
  if (next <= std::max(last, planned)) return "";
  return format(
      "the learning rate rises again, from {:.3g} at step {} to {:.3g} at step {}, because the "
      "limit of the run changed after its decay had begun; a longer run in a new --run has one "
      "decay, at its end",
      last, with_commas(step), next, with_commas(step + 1));
}

// Rank 0 finds the state to start from; the other ranks get it.
void find_state(AttemptParts& parts, RunDirectory* run) {
  std::optional<TrainState> found;
  if (run != nullptr) found = resume_state(*run, parts.model, parts.data, parts.options);
  const Decay before = found ? found->choices.decay : Decay();
  const bool cancelled = found && cancel_decay_of_other_limit(*found, *run, parts.options);
  parts.facts.decay_cancelled = parts.job.any(cancelled);
  parts.facts.resumed = parts.job.any(found.has_value());
  const FineTuneOptions& tune = parts.options.tune;
  const bool starts_from = !parts.facts.resumed && !tune.from.empty();
  if (found) {
    parts.state = std::move(*found);
  } else if (starts_from && run != nullptr) {
    parts.state = starting_state(parts.options, parts.model, parts.data);
  } else {
    parts.state = first_state(parts.model, static_cast<uint64_t>(parts.options.seed));
  }
  if (run != nullptr && parts.facts.resumed) {
    const std::string rising =
        rising_rate(parts, run->checkpoint(parts.state.counters.step), before);
    if (!rising.empty()) parts.facts.warnings.push_back(rising);
  }
  begin_average(parts.options, parts.state);
  if (parts.job.alone()) return;
  const bool all = parts.facts.resumed || (starts_from && tune.optimizer);
  share_state(parts.job, parts.state,
              all           ? FromCheckpoint::kAll
              : starts_from ? FromCheckpoint::kWeights
                            : FromCheckpoint::kNothing);
}

// Rank 0 opens the validation set of eval.old-data and sends it to the other ranks, one of which
// may become rank 0 of an elastic job.
void open_old_set(AttemptParts& parts, const RunDirectory* run) {
  const std::string& data = parts.options.tune.old_data;
  if (!names_dataset(data)) return;
  if (run != nullptr) parts.old_valid = open_old_valid(parts.options, parts.data);
  if (parts.job.alone()) return;
  const std::string text = parts.job.broadcast(run != nullptr ? old_set_text(parts) : "");
  if (run == nullptr) read_old_set(text, parts);
}

// A resumed run computes in its earlier precision unless --precision is given; a change of
// precision or threads changes rounding and is worth a warning.
void adopt_device(AttemptParts& parts) {
  const Choices& choices = parts.state.choices;
  const Precision before = precision_of(choices.precision);
  if (parts.options.device.precision == Precision::kAuto) use_precision(parts.opened, before);
  if (parts.opened.precision != before) {
    log_warning(
        format("the run computed in {} before and computes in {} now: it resumes, but its results "
               "will differ in rounding",
               name_of(before), name_of(parts.opened.precision)));
  }
  const auto threads = static_cast<uint64_t>(parts.opened.device.threads());
  if (!parts.on_gpu() && choices.threads != threads) {
    log_warning(
        format("the run used {} before and uses {} now: it resumes, but its results will "
               "differ in rounding; --threads {} avoids that",
               counted(choices.threads, "thread"), threads, choices.threads));
  }
}

void plan_micro_batches(AttemptParts& parts) {
  const TrainOptions& options = parts.options;
  Choices& choices = parts.state.choices;
  // Rank 0 collects all moments for a checkpoint, so it needs memory for all.
  const bool sharded = options.workers.shard_optimizer && !parts.job.first();
  MemoryPlan& memory = parts.facts.memory;
  memory = plan_memory(options, parts.model, parts.data, choices.micro_tokens, parts.opened,
                       {.workers = parts.job.size(),
                        .on_gpu = workers_on_gpu(parts.job, parts.opened.device),
                        .moment_shards = sharded ? parts.job.size() : 1});
  choices.threads = static_cast<uint64_t>(parts.opened.device.threads());
  choices.precision = name_of(parts.opened.precision);
  choices.micro_tokens = memory.micro_tokens;
}

// A new run chooses its precision by measurement where it may; a resumed one has chosen.
void choose_precision(AttemptParts& parts) {
  if (parts.facts.resumed) return;
  if (!may_choose_precision(parts.job, parts.opened, parts.model, parts.options)) return;
  const ReadyBatch ready = make_input(parts)->next();
  parts.facts.precision_gain = choose_precision(parts.job, parts.opened, parts.model, parts.options,
                                                parts.state.parameters, ready);
  parts.state.choices.precision = name_of(parts.opened.precision);
}

// Measures the workers and the link between them, and chooses transport, compression and bucket
// size by the result.
void preflight(AttemptParts& parts) {
  const TrainOptions& options = parts.options;
  const ReadyBatch ready = make_input(parts)->next();
  const uint64_t step = parts.state.counters.step;
  Choices& choices = parts.state.choices;
  GpuTransport& transport = parts.transport;
  transport = choose_transport(parts.job, parts.opened.device, options,
                               known_compression(options, step, choices));
  Preflight measured =
      measure_job(parts.job, transport.direct.get(), parts.opened, parts.model, options,
                  parts.state.parameters, ready, options.workers.preflight);
  measure_host_links(parts.job, options.workers.preflight / 4, measured);
  const ParameterLayout& layout = parts.model.layout();
  choose_compression(options, measured, layout, step, choices);
  check_elastic_compression(options.workers.elastic, parse_compress(choices.compress));
  drop_nccl_if_unused(transport, parse_compress(choices.compress));
  choose_bucket(parts.job, options.workers, layout.elements(),
                transport.direct ? measured.direct_curve : measured.curve, choices);
  const PreflightReport report = report_of(measured, layout, options, step, choices);
  parts.facts.prediction = report.prediction;
  parts.facts.prediction_line = report.line;
  for (const std::string& text : {report.warning, report.slow_warmup, report.slow_worker}) {
    if (!text.empty()) parts.facts.warnings.push_back(text);
  }
}

void describe_attempt(AttemptParts& parts) {
  AttemptFacts& facts = parts.facts;
  facts.device = describe(parts.opened);
  if (facts.precision_gain) {
    facts.device += format(" ({:.1f} times as fast as fp32 on this batch)", *facts.precision_gain);
  }
  facts.device_kind = parts.opened.device.kind() == DeviceKind::kGpu ? "gpu" : "cpu";
  facts.threads = parts.state.choices.threads;
  facts.worker_count = static_cast<uint64_t>(parts.job.size());
  facts.members = member_entries(parts.job);
  facts.workers = describe(parts.job, parts.state.choices);
  if (!parts.transport.text.empty()) facts.workers += "; " + parts.transport.text;
  facts.first_step = parts.state.counters.step;
  const std::string missing = missing_decay(parts.options);
  if (!missing.empty() && !parts.state.choices.decay.active()) facts.warnings.push_back(missing);
  if (parts.options.ema_decay > 0 && !parts.data.valid) {
    facts.warnings.emplace_back(
        "no command will translate with the moving average of the weights (ema.decay), because the "
        "dataset has no validation pairs on which it could score better than the weights; prepare "
        "it with --valid, or leave out --ema.decay");
  }
  if (parts.options.eval.command.empty() && !parts.state.counters.best_metrics.empty()) {
    facts.warnings.emplace_back(
        "earlier evaluations of the run had scores by eval.command, which is not taken from a run "
        "directory; give --eval.command again to continue them");
  }
  if (parts.job.alone()) return;
  const Membership& membership = *parts.job.membership();
  facts.insecure = !membership.secret();
  facts.encryption = membership.encryption();
  const bool between_hosts = first_rank_of_each_machine(membership.control().members()).size() > 1;
  if (parts.transport.direct && between_hosts) {
    if (parts.options.workers.encrypt != Encrypt::kOff)
      facts.encryption += ", but NCCL sends gradients in clear";
    facts.warnings.emplace_back(
        "gradients cross between hosts over NCCL, whose connections cannot be encrypted; "
        "--transport tcp encrypts them");
  }
  if (!facts.encryption.empty()) facts.workers += "; encryption: " + facts.encryption;
}

}  // namespace

std::unique_ptr<Prefetcher> make_input(AttemptParts& parts) {
  const TrainOptions& options = parts.options;
  BatchStream stream(parts.data.train, static_cast<uint64_t>(options.seed), batch_size(options));
  stream.seek(parts.state.counters.cursor);
  PrefetchOptions prefetch{.micro_tokens = parts.facts.memory.micro_tokens,
                           .bos = parts.data.vocabulary.bos(),
                           .depth = kBatchesAhead,
                           .rank = parts.job.rank(),
                           .workers = parts.job.size(),
                           .shares = parts.state.choices.shares};
  if (parts.on_gpu()) {
    prefetch.stage = [&parts](const PackedBatch& micro) -> std::shared_ptr<StagedBatch> {
      return std::shared_ptr<BatchIndex>(
          parts.model.index(parts.opened.device, micro, parts.opened.type));
    };
  }
  return std::make_unique<Prefetcher>(parts.data.train, std::move(stream), std::move(prefetch));
}

std::string old_set_text(const AttemptParts& parts) {
  const ValidationSet& set = *parts.old_valid;
  return one_line(Json{set.pairs.sources, set.pairs.targets, set.sources, set.references});
}

void read_old_set(const std::string& text, AttemptParts& parts) {
  const Json received = Json::parse(text);
  ValidationSet& set = parts.old_valid.emplace();
  received.at(0).get_to(set.pairs.sources);
  received.at(1).get_to(set.pairs.targets);
  received.at(2).get_to(set.sources);
  received.at(3).get_to(set.references);
}

AttemptParts::AttemptParts(const TrainOptions& given, Job& workers)
    : options(given),
      job(workers),
      opened(open_device(given.device, static_cast<int>(given.threads))),
      data(open_data(given)),
      model(given.model, given.dropout, data.vocabulary.pieces()) {
  const Vocabulary& vocabulary = data.vocabulary;
  if (vocabulary.bos() != vocabulary.eos()) model.set_start_piece(vocabulary.bos());
  options.schedule.last_step = planned_last_step(options, data.train);
}

namespace {

// A GPU sums the gradient of a bias by eights.
void check_output_bias(const Device& device, const ModelOptions& model, size_t pieces) {
  if (device.kind() == DeviceKind::kCpu || !model.output_bias || pieces % 8 == 0) return;
  throw ConfigError(
      format("model.output-bias cannot be trained on a GPU with a vocabulary of {} pieces, only "
             "with a multiple of 8; use --device cpu, or a vocabulary of {}",
             with_commas(pieces), with_commas(pieces / 8 * 8)));
}

}  // namespace

std::vector<MemberEntry> member_entries(Job& job) {
  std::vector<MemberEntry> entries;
  if (!job.elastic()) return entries;
  for (const Member& member : job.membership()->members()) {
    entries.push_back({static_cast<uint64_t>(member.id.number), member.host});
  }
  return entries;
}

std::unique_ptr<AttemptParts> prepare_attempt(const TrainOptions& given, RunDirectory* run,
                                              Job& job, const std::string& version) {
  auto made = std::make_unique<AttemptParts>(given, job);
  AttemptParts& parts = *made;
  const TrainOptions& options = parts.options;
  const Device& device = parts.opened.device;
  check_model_for(device, options.model);
  const Frozen checked(parts.model.layout(), options.tune.freeze);
  check_output_bias(device, options.model, parts.data.vocabulary.size());
  if (!job.alone()) {
    check_transport(device, options);
    check_sharding(device, options);
  }
  const Stopwatch comparing;
  check_same_data(job, parts.data.fingerprint, options.data);
  parts.facts.version = version;
  parts.facts.data_seconds = parts.data.seconds + comparing.seconds();
  if (run != nullptr) {
    parts.writer = std::make_unique<RunWriter>(*run, options, parts.data, parts.model);
  }

  find_state(parts, run);
  open_old_set(parts, run);
  if (parts.facts.resumed) adopt_device(parts);
  plan_micro_batches(parts);
  parts.earlier_seconds = parts.state.counters.seconds;
  if (parts.writer) parts.writer->open(parts.state.counters);
  replay_algorithms(job, device, parts.writer.get(), options, parts.facts.resumed);

  choose_precision(parts);
  parts.shares = std::make_unique<WorkerShares>(job, options, parts.state.choices);
  parts.replay = std::make_unique<Replay>(job, options);
  if (parts.replay->active() && parts.facts.resumed) {
    throw ConfigError("--replay begins with the first step; give a --run that has no checkpoint");
  }
  const Capacity capacity = measure_capacity(job, parts.opened);
  parts.facts.capacity = capacity.high;
  parts.facts.capacity_low = capacity.low;
  if (!job.alone()) preflight(parts);
  describe_attempt(parts);

  parts.stepper = make_stepper(device, parts.opened.type, parts.model, options, parts.state, job,
                               parts.transport.direct.get());
  if (job.elastic()) {
    if (parts.writer) claim_writing(parts);  // known before another worker can begin to train
    const std::string id = job.broadcast(run != nullptr ? make_run_id(*run) : "");
    parts.run_places = {{id, options.run}};
  }
  parts.traced = TracedSteps::of(job, options.timeline);
  if (parts.traced) parts.stepper->trace(&parts.traced->timeline());
  parts.input = make_input(parts);
  return made;
}

std::unique_ptr<AttemptParts> prepare_joiner(const TrainOptions& given, const Choices& choices,
                                             Job& job, const std::string& version) {
  auto made = std::make_unique<AttemptParts>(given, job);
  AttemptParts& parts = *made;
  const Device& device = parts.opened.device;
  check_model_for(device, parts.options.model);
  check_output_bias(device, parts.options.model, parts.data.vocabulary.size());
  check_transport(device, parts.options);
  use_precision(parts.opened, precision_of(choices.precision));
  parts.state.choices = choices;
  plan_micro_batches(parts);
  parts.shares = std::make_unique<WorkerShares>(job, parts.options, parts.state.choices);
  parts.replay = std::make_unique<Replay>(job, parts.options);
  AttemptFacts& facts = parts.facts;
  facts.version = version;
  facts.data_seconds = parts.data.seconds;
  facts.device = describe(parts.opened);
  facts.device_kind = parts.on_gpu() ? "gpu" : "cpu";
  facts.threads = parts.state.choices.threads;
  facts.resumed = true;
  return made;
}

}  // namespace reigen
