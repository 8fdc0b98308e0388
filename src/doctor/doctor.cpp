#include "doctor/doctor.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "doctor/doctor_advice.h"
#include "doctor/doctor_facts.h"
#include "train/last_step.h"
#include "train/run/setup.h"
#include "train/step/gpu_transport.h"
#include "train/step/stepper.h"
#include "train/workers/agreements.h"

namespace reigen {
namespace {

// The first worker of each host, by rank; all workers where there is one host.
std::vector<int> one_of_each_host(const std::vector<Member>& members) {
  std::vector<int> first, all;
  std::set<std::string> seen;
  for (const Member& member : members) {
    all.push_back(member.rank);
    if (seen.insert(member.machine()).second) first.push_back(member.rank);
  }
  return first.size() > 1 ? first : all;
}

// Seconds of all steps until the first limit of the run; 0 where there is no limit.
double run_seconds(const Examination& e, const TrainOptions& options, double steps_in_epoch) {
  const double steps = run_steps(options, e.decay, steps_in_epoch);
  const double first = std::min(steps, static_cast<double>(e.warmup));
  double seconds = first * e.warmup_step.seconds + (steps - first) * e.predictions[0].seconds;
  if (options.max_time > 0) seconds = std::min(seconds, options.max_time);
  return std::isfinite(seconds) ? seconds : 0;
}

ReadyBatch first_batch(const TrainOptions& options, const TrainingData& data,
                       const MemoryPlan& memory, const Job& job) {
  Prefetcher input(
      data.train, BatchStream(data.train, static_cast<uint64_t>(options.seed), batch_size(options)),
      {.micro_tokens = memory.micro_tokens,
       .bos = data.vocabulary.bos(),
       .depth = 1,
       .rank = job.rank(),
       .workers = job.size()});
  return input.next();
}

// One examination: gathers facts, measures, and draws conclusions.
class Examiner {
 public:
  Examiner(const DoctorOptions& given, Job& job)
      : given_(given),
        job_(job),
        options_(agreed_options(given.train, job)),
        opened_(open_device(options_.device, static_cast<int>(options_.threads))),
        data_(open_data(options_)),
        model_(options_.model, options_.dropout, data_.vocabulary.pieces()) {
    check_same_data(job_, data_.fingerprint, options_.data);
    check_simulation(given_.simulate, job_.size());
    check_model_for(opened_.device, options_.model);
    if (!job_.alone()) {
      check_transport(opened_.device, options_);
      check_sharding(opened_.device, options_);
    }
    parameters_ = first_state(model_, static_cast<uint64_t>(options_.seed)).parameters;
    const MemorySharing sharing = {.workers = job_.size(),
                                   .on_gpu = workers_on_gpu(job_, opened_.device)};
    e_.memory = plan_memory(options_, model_, data_, 0, opened_, sharing);
    ready_ = first_batch(options_, data_, e_.memory, job_);
    if (may_choose_precision(job_, opened_, model_, options_)) {
      choose_precision(job_, opened_, model_, options_, parameters_, ready_);
    }
  }

  Examination examine() {
    e_.workers = gather_facts(job_, opened_, data_, options_.data);
    if (job_.alone()) {
      measure_alone();
    } else {
      measure_together();
    }
    measure_half_threads();
    if (job_.first()) conclude();
    return std::move(e_);
  }

 private:
  // doctor needs no limit of the run, but resolve() asks for one.
  TrainOptions agreed_options(TrainOptions options, Job& job) {
    if (job.first()) {
      if (options.data.empty()) throw ConfigError("--data is required (written by reigen prepare)");
      options = with_recipe(options);
      open_end_ = options.max_epochs == 0 && options.max_time == 0 && options.max_steps == 0 &&
                  options.eval.patience == 0;
      if (open_end_) options.max_time = 1;
      options = resolve(options);
      check_schedule(options.schedule);
    }
    return shared_options(job, options);
  }

  ComputeTimes compute(const OpenedDevice& opened, double budget) {
    return measure_compute(opened, model_, options_, parameters_, ready_, budget);
  }

  void measure_alone() {
    Measured& m = e_.preflight.measured;
    m.compute = compute(opened_, given_.seconds / 2);
    m.compress = measure_compress_cost(host_device(opened_.device, options_.threads));
    e_.preflight.compute_by_rank = {m.compute.all()};
  }

  void measure_together() {
    const std::vector<Member>& members = job_.membership()->control().members();
    std::set<std::string> machines;
    for (const Member& member : members) machines.insert(member.machine());
    e_.machines = machines.size();
    job_.check(measure_pairs(job_.membership()->group(),
                             pairs_to_measure(one_of_each_host(members)), given_.seconds / 4,
                             e_.links));
    std::vector<double> ahead;
    job_.check(measure_clocks(job_.membership()->group(), ahead));
    for (WorkerFacts& w : e_.workers) w.clock_ahead = ahead[static_cast<size_t>(w.rank)];
    transport_ =
        choose_transport(job_, opened_.device, options_, {.method = CompressMethod::kAuto});
    e_.preflight = measure_job(job_, transport_.direct.get(), opened_, model_, options_,
                               parameters_, ready_, given_.seconds * 3 / 4);
  }

  void measure_half_threads() {
    const int threads = opened_.device.threads();
    if (job_.any(opened_.device.kind() != DeviceKind::kCpu || threads == 1)) return;
    OpenedDevice half = opened_;
    half.device = Device::cpu(threads / 2);
    use_precision(half, opened_.precision);
    const ComputeTimes times = compute(half, given_.seconds / 4);
    opened_.device.use_threads();
    std::vector<double> seconds(static_cast<size_t>(job_.size()));
    seconds[static_cast<size_t>(job_.rank())] = times.forward + times.backward;
    job_.sum(seconds);
    e_.half = {threads / 2, threads, *std::max_element(seconds.begin(), seconds.end())};
  }

  void conclude() {
    for (WorkerFacts& w : e_.workers) {
      w.compute = e_.preflight.compute_by_rank[static_cast<size_t>(w.rank)];
    }
    e_.parameters = model_.layout().parameters();
    e_.tokens = static_cast<double>(ready_.batch.target_tokens);
    e_.sentences = ready_.batch.pairs.size();
    e_.setting = options_.workers.compress;
    extrapolate(e_, model_.layout(), given_.simulate);
    predict();
    const StepPrediction& step = e_.predictions[0];
    e_.verdict = verdict(step);
    name_straggler(e_);
    const double each_pair =
        static_cast<double>(data_.bytes) / static_cast<double>(data_.manifest.train_pairs());
    const double share = static_cast<double>(e_.sentences) / job_.size();
    examine_hosts(e_, each_pair * share / step.seconds);
    suggest(e_, model_.layout());
  }

  void predict() {
    const Measured& m = e_.preflight.measured;
    const ParameterLayout& layout = model_.layout();
    if (e_.setting.method == CompressMethod::kAuto) e_.setting = choose_setting(m, layout);
    drop_nccl_if_unused(transport_, e_.setting);
    e_.transport = transport_.text;
    e_.predictions.push_back(predict_step(m, layout, e_.setting));
    if (m.workers > 1) {
      for (const CompressSetting& s : candidates()) {
        if (s != e_.setting) e_.predictions.push_back(predict_step(m, layout, s));
      }
    }
    if (m.workers > 1 && has_warmup(e_.setting)) {
      e_.warmup = warmup_steps(options_);
      e_.warmup_step = predict_warmup_step(m, layout);
    }
    if (open_end_) options_.max_time = 0;
    plan_schedule();
    const double steps_in_epoch =
        static_cast<double>(data_.manifest.train_pairs()) / static_cast<double>(e_.sentences);
    e_.hours = run_seconds(e_, options_, steps_in_epoch) / 3600;
    e_.cost = e_.hours * given_.price_per_hour * static_cast<double>(e_.machines);
  }

  void plan_schedule() {
    e_.recipe = options_.chosen;
    e_.optimizer = optimizer_name(options_.optimizer.kind);
    e_.optimizer_work = e_.preflight.measured.compute.muon;
    options_.schedule.last_step = planned_last_step(options_, data_.train);
    e_.decay = planned_decay(options_.schedule);
    e_.missing_decay = missing_decay(options_);
    if (!e_.missing_decay.empty()) e_.findings.push_back({.kind = Finding::Kind::kNoDecay});
  }

  const DoctorOptions& given_;
  Job& job_;
  bool open_end_ = false;  // no option limits the length of the run; before options_, which set it
  TrainOptions options_;
  OpenedDevice opened_;
  TrainingData data_;
  Transformer model_;
  std::vector<float> parameters_;
  ReadyBatch ready_;
  GpuTransport transport_;
  Examination e_;
};

}  // namespace

double run_steps(const TrainOptions& options, const Decay& decay, double steps_in_epoch) {
  if (decay.active()) return static_cast<double>(decay.end());  // counted
  double steps = INFINITY;
  if (options.max_steps > 0) steps = static_cast<double>(options.max_steps);
  if (options.max_epochs > 0) steps = std::min(steps, options.max_epochs * steps_in_epoch);
  return steps;
}

Examination examine(const DoctorOptions& given, Job& job) { return Examiner(given, job).examine(); }

}  // namespace reigen
