#include "report/verdict/machine/bottleneck.h"

#include <algorithm>

#include "base/error.h"
#include "dist/compress/compressor.h"
#include "report/verdict/machine/run_course.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {
namespace {

bool on_gpu(const RunSummary& run) {
  if (run.starts.empty()) return false;
  const StartRecord& start = run.starts.back();
  // Logs of version 0.1 have no device_kind; their descriptions of GPUs contain this text.
  if (start.device_kind.empty()) return start.device.find("(GPU ") != std::string::npos;
  return start.device_kind == "gpu";
}

// The compression of the last attempt; none where the log has no prediction.
CompressSetting compression_of(const RunSummary& run) {
  if (run.predictions.empty() || run.predictions.back().method.empty()) return {};
  try {
    return parse_compress(run.predictions.back().method);
  } catch (const ConfigError&) {  // of a later version
    return {};
  }
}

Cause exchange_cause(const RunSummary& run) {
  return crosses_network(run) ? Cause::kNetwork : Cause::kLocalExchange;
}

using WorkerUses = std::map<int, WorkerUse>;

// Why different ranks are late in turn: other processes come and go on their cores, or workers
// share them.
Cause cause_of_turns(const WorkerUses& uses) {
  double others = 0;
  double workers = 0;
  for (const auto& [rank, use] : uses) {
    others = std::max(others, use.lost_to_others);
    workers = std::max(workers, use.lost_to_workers);
  }
  if (std::max(others, workers) < kLostShare) return Cause::kLateInTurn;
  return others >= workers ? Cause::kInterference : Cause::kSharedCores;
}

// All of the time but compute and copies.
std::vector<CauseShare> causes_of(const RunSummary& run, const TimeShares& s,
                                  const WorkerUses& uses) {
  const Cause turns = cause_of_turns(uses);
  auto in_turn = [&](Cause cause) { return cause == turns ? s.late_in_turn : 0; };
  std::vector<CauseShare> causes = {
      {Cause::kInput, s.input},
      {exchange_cause(run), s.network},
      {Cause::kStraggler, s.straggler},
      {Cause::kLateInTurn, in_turn(Cause::kLateInTurn)},
      {Cause::kInterference, s.interference + in_turn(Cause::kInterference)},
      {Cause::kSharedCores, s.shared_cores + in_turn(Cause::kSharedCores)},
      {Cause::kQuota, s.quota},
      {Cause::kStopped, s.stopped},
      {Cause::kSteal, s.steal},
      {Cause::kMemory, s.memory},
      {Cause::kGpuShared, s.gpu_shared},
      {Cause::kGpuSlowed, s.gpu_slowed},
      {Cause::kContention, s.contention},
      {Cause::kCompression, s.compression},
      {Cause::kEvaluation, s.evaluation},
      {Cause::kCheckpoint, s.checkpoint},
      {Cause::kLogging, s.logging},
      {Cause::kBetweenSteps, s.between},
      {Cause::kOther, s.other}};
  for (CauseShare& cause : causes) cause.share /= s.total;
  return causes;
}

std::vector<CauseShare> listed_parts(const RunSummary& run, const TimeShares& s,
                                     const CompressSetting& compression) {
  std::vector<CauseShare> parts = {
      {computed_on_host(compression) ? Cause::kCompression : Cause::kGradientCopy, s.compression},
      {exchange_cause(run), s.network},
      {Cause::kStraggler, s.straggler - s.awaited},
      {Cause::kLateInTurn, s.late_in_turn},
      {Cause::kInterference, s.interference},
      {Cause::kSharedCores, s.shared_cores},
      {Cause::kQuota, s.quota},
      {Cause::kStopped, s.stopped},
      {Cause::kSteal, s.steal},
      {Cause::kMemory, s.memory},
      {Cause::kGpuShared, s.gpu_shared},
      {Cause::kGpuSlowed, s.gpu_slowed},
      {Cause::kInput, s.input},
      {Cause::kContention, s.contention},
      {Cause::kEvaluation, s.evaluation},
      {Cause::kCheckpoint, s.checkpoint},
      {Cause::kLogging, s.logging},
      {Cause::kBetweenSteps, s.between},
      {Cause::kOther, s.other}};
  for (CauseShare& part : parts) part.share = s.total > 0 ? part.share / s.total : 0;
  std::erase_if(parts, [](const CauseShare& part) { return part.share < kListedShare; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const CauseShare& a, const CauseShare& b) { return a.share > b.share; });
  return parts;
}

Confidence confidence_of(double margin) {
  return margin > kHighConfidence     ? Confidence::kHigh
         : margin > kMediumConfidence ? Confidence::kMedium
                                      : Confidence::kLow;
}

SlowReason reason_of_slowest(const TimeShares& s) {
  const auto late = std::find_if(s.late.begin(), s.late.end(),
                                 [&](const LateRank& rank) { return rank.rank == s.slowest_rank; });
  return late == s.late.end() ? SlowReason::kUnknown : late->reason;
}

// A rank that is late because others have its cores is no slow host.
Cause cause_of_straggler(const TimeShares& s) {
  const SlowReason reason = reason_of_slowest(s);
  return reason == SlowReason::kOthers        ? Cause::kInterference
         : reason == SlowReason::kSharedCores ? Cause::kSharedCores
         : reason == SlowReason::kSteal       ? Cause::kSteal
         : reason == SlowReason::kMemory      ? Cause::kMemory
         : reason == SlowReason::kGpuOthers   ? Cause::kGpuShared
         : reason == SlowReason::kGpuSlowed   ? Cause::kGpuSlowed
                                              : Cause::kStraggler;
}

// Cores that stay idle beside few threads: the run could compute with more.
bool more_threads_fit(const RunSummary& run, const WorkerUses& uses) {
  const auto found = uses.find(0);
  if (on_gpu(run) || found == uses.end() || !found->second.known) return false;
  const WorkerUse& use = found->second;
  return use.threads > 0 && idle_threads(use) >= use.threads;
}

// The thread that reads and packs batches runs or waits for a core for most of the time, or it
// waits for the disk.
Advice input_advice(int rank, const WorkerUses& uses) {
  const auto found = uses.find(std::max(0, rank));
  if (found == uses.end() || !found->second.input_known) return Advice::kFasterInput;
  const WorkerUse& use = found->second;
  if (use.input_running + use.input_waiting < kMostlyCompute) return Advice::kFasterDisk;
  return use.input_waiting > use.input_running ? Advice::kReaderWaits : Advice::kReaderIsBusy;
}

Advice straggler_advice(const TimeShares& s) {
  switch (reason_of_slowest(s)) {
    case SlowReason::kQuota:
      return Advice::kInspectQuota;
    case SlowReason::kFewerThreads:
      return Advice::kMoreThreadsOfRank;
    default:
      return Advice::kInspectHost;
  }
}

Advice advice_for(const Judgement& j, const Efficiency& efficiency, const RunSummary& run,
                  const WorkerUses& uses) {
  const TimeShares& s = j.shares;
  switch (j.cause) {
    case Cause::kCompute:
      if (s.contention > kMentionedShare * s.total) return Advice::kFreeCores;
      if (more_threads_fit(run, uses)) return Advice::kMoreThreads;
      return efficiency.low() ? Advice::kLargerProducts : Advice::kFasterProcessors;
    case Cause::kLocalExchange:
      return on_gpu(run) ? Advice::kOneWorkerPerGpu : Advice::kFewerWorkers;
    case Cause::kStraggler:
      return straggler_advice(s);
    case Cause::kInput:
      return input_advice(j.rank, uses);
    default:
      return info_of(j.cause).advice;
  }
}

// Figures that are hidden could explain why computing takes long.
bool doubtful_compute(const RunSummary& run, const Judgement& j, const WorkerUses& uses) {
  if (j.cause != Cause::kCompute) return false;
  const auto found = uses.find(0);
  if (on_gpu(run)) {
    const GpuUse gpus = gpu_use(run, 0, j.interval);
    return (gpus.shared() && !gpus.other_use_known) || (gpus.slow() && !gpus.clock_known) ||
           j.shares.descheduled_share >= kDescheduledShare ||
           (found != uses.end() && found->second.waits_for_others());
  }
  return found != uses.end() && found->second.major_faults >= kManyFaults &&
         !found->second.pressure_known;
}

// The clock is known, but not how much of the work depends on it; and of others on the GPU, how
// long they computed, but not what that cost.
bool estimated(Cause cause) { return cause == Cause::kGpuShared || cause == Cause::kGpuSlowed; }

// Cores that rank 0 kept busy while its steps waited for the network. All other parts of its time
// count as if all of its threads computed in them.
double cores_of_exchange(const TimeShares& s, const WorkerUses& uses) {
  const auto found = uses.find(0);
  if (found == uses.end() || !found->second.known || s.network <= 0) return 0;
  const WorkerUse& use = found->second;
  const double elsewhere = s.total - s.network - s.straggler - s.late_in_turn - s.lost_compute();
  const double left = use.own * s.total - std::max(1.0, use.threads) * elsewhere;
  return std::max(0.0, left / s.network);
}

double nominal_speed(const RunSummary& run) {
  double slowest = 0;
  for (const auto& [rank, summary] : run.ranks) {
    if (!summary.last_sample) continue;
    for (const InterfaceSample& i : summary.last_sample->interfaces) {
      if (!i.used || i.name == "lo" || i.speed == 0) continue;
      const auto speed = static_cast<double>(i.speed);
      slowest = slowest > 0 ? std::min(slowest, speed) : speed;
    }
  }
  return slowest;
}

// A host that sent few segments says nothing, and where all workers are on one host, the segments
// are those of other programs, or wait for a core.
void find_resent(const RunSummary& run, Bottleneck& b) {
  constexpr double kFewestSegments = 1000;
  if (!crosses_network(run)) return;
  for (const auto& [rank, summary] : run.ranks) {
    const double sent = summary.machine.total("tcp_sent");
    const double share = summary.machine.total("tcp_resent") / std::max(1.0, sent);
    if (sent < kFewestSegments || share <= b.resent) continue;
    b.resent = share;
    b.resent_rank = rank;
  }
}

Judgement judge(const RunSummary& run, const StepInterval& interval, TimeShares shares,
                const WorkerUses& uses, const Efficiency& efficiency,
                const CompressSetting& compression) {
  Judgement j;
  j.interval = interval;
  j.shares = std::move(shares);
  const TimeShares& s = j.shares;
  j.parts = listed_parts(run, s, compression);
  if (s.total <= 0) return j;
  const Decision decision = decide(s.compute / s.total, causes_of(run, s, uses));
  j.cause = decision.cause;
  j.largest = decision.largest;
  j.confidence = confidence_of(decision.margin);
  if (j.cause == Cause::kStraggler) {
    j.rank = s.slowest_rank;
    j.cause = cause_of_straggler(s);
    if (j.rank < 0) j.confidence = Confidence::kLow;
  }
  if (j.cause == Cause::kCompute && j.largest.cause == Cause::kStraggler) {
    j.largest.cause = cause_of_straggler(s);
  }
  if (j.cause == Cause::kInput) j.rank = s.late_input_rank;
  if (j.cause == Cause::kNetwork && !on_gpu(run)) j.exchange_work = cores_of_exchange(s, uses);
  if (j.exchange_work >= kBusyExchange) {
    j.cause = j.largest.cause = Cause::kExchangeWork;
    j.confidence = std::min(j.confidence, Confidence::kMedium);
  }
  if (estimated(j.cause)) j.confidence = std::min(j.confidence, Confidence::kMedium);
  if (doubtful_compute(run, j, uses)) j.confidence = Confidence::kLow;
  j.advice = advice_for(j, efficiency, run, uses);
  return j;
}

// Steps that became slower because the same computing takes longer. A new attempt may compute on a
// different machine, and says so itself.
void name_slower_processor(const RunCourse& course, Judgement& last) {
  const Change& change = course.changes.back();
  // Where the driver hides how long others computed, their arrival is what is known. Evaluations
  // are no part of steps, and a GPU that lags behind makes the host wait anywhere.
  const bool host_waits = last.cause == Cause::kCompute || last.cause == Cause::kInput ||
                          last.cause == Cause::kEvaluation;
  if (change.reason == SlowReason::kGpuOthers && change.slower() && change.attempt == 0 &&
      host_waits) {
    last.cause = Cause::kGpuShared;
    last.largest = {last.cause, 1 - change.before / change.after};
    last.advice = info_of(last.cause).advice;
    last.confidence = Confidence::kMedium;
    return;
  }
  if (last.cause != Cause::kCompute || !change.slower() || change.cause != Cause::kCompute ||
      change.attempt > 0) {
    return;
  }
  last.cause = change.reason == SlowReason::kGpuOthers   ? Cause::kGpuShared
               : change.reason == SlowReason::kGpuSlowed ? Cause::kGpuSlowed
                                                         : Cause::kSlowerProcessor;
  last.largest = {last.cause, change.part_share * (1 - change.before / change.after)};
  last.advice = info_of(last.cause).advice;
  const bool clear = change.reason == SlowReason::kClock || last.cause != Cause::kSlowerProcessor;
  last.confidence = change.reason == SlowReason::kUnknown ? Confidence::kLow
                    : clear                               ? Confidence::kHigh
                                                          : Confidence::kMedium;
}

// The last stretch speaks for the run where steps became slower in it, and names why.
bool last_stretch_counts(const RunCourse& course, const Judgement& last) {
  if (course.changes.empty() || !course.changes.back().slower()) return false;
  double all = 0;
  for (const Stretch& stretch : course.stretches) all += stretch.seconds;
  return course.stretches.back().seconds >= kJudgedStretch * all && last.cause != Cause::kCompute &&
         last.cause != Cause::kUnknown && last.cause != Cause::kEvaluation;
}

}  // namespace

bool Efficiency::low() const { return capacity > 0 && share() < kEfficientShare; }

// Workers of a single host wait for each other's memory and cores, not for a network.
bool crosses_network(const RunSummary& run) {
  bool known = false;
  double sent = 0;
  double inter_node = 0;
  for (const auto& [rank, summary] : run.ranks) {
    sent += summary.spans.total("sent");
    inter_node += summary.spans.total("inter_node_bytes");
    if (!summary.last_sample) continue;
    for (const InterfaceSample& i : summary.last_sample->interfaces) {
      if (i.used && i.name != "lo") return true;
      known = known || i.used;
    }
  }
  if (known) return false;
  return sent == 0 || inter_node > 0;  // a run shorter than a second has no samples
}

Bottleneck bottleneck(const RunSummary& run) {
  Bottleneck b;
  b.steps = std::max(0.0, run.steps.total("steps") - 1);
  b.time = run_time(run);
  b.compression = compression_of(run);
  if (!run.predictions.empty()) b.prediction = run.predictions.back();
  b.nominal_speed = nominal_speed(run);
  for (const EvaluationRecord& e : run.evaluations) b.evaluations.push_back(e.seconds);
  for (const CheckpointRecord& c : run.checkpoints) b.saves.push_back(c.stall_seconds);
  b.mean_step = run.steps.total("seconds") / std::max(1.0, run.steps.total("steps"));
  b.uses = worker_use(run);
  b.gpu = gpu_use(run, 0);
  find_resent(run, b);
  TimeShares shares = time_shares(run, {}, b.uses);
  b.efficiency = efficiency(run, shares);
  if (shares.total > 0) shares.between = b.time.between_steps();
  shares.total += shares.between;
  b.whole = judge(run, {}, std::move(shares), b.uses, b.efficiency, b.compression);
  auto course = std::make_shared<RunCourse>(run_course(run));
  if (b.steps < kFewestSteps) {
    const Judgement found = b.whole;
    b.whole = {.shares = found.shares, .parts = found.parts};
  }
  static_cast<Judgement&>(b) = b.whole;
  if (b.whole.cause != Cause::kUnknown && course->stretches.size() > 1) {
    const Stretch& last = course->stretches.back();
    Judgement late = judge(run, last.steps, last.shares, last.uses, b.efficiency, b.compression);
    name_slower_processor(*course, late);
    if (last_stretch_counts(*course, late)) {
      static_cast<Judgement&>(b) = std::move(late);
      b.of_last_stretch = true;
    }
  }
  b.course = std::move(course);
  return b;
}

}  // namespace reigen
