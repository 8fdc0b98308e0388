#include "report/verdict/verdicts.h"

#include <algorithm>

#include "base/error.h"
#include "dist/compress/compressor.h"
#include "report/verdict/run_course.h"
#include "report/verdict/thresholds.h"

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

std::vector<CauseShare> causes_of(const RunSummary& run, const TimeShares& s) {
  const bool slow = s.slowest_ratio >= kSlowRankInRun;
  return {{Cause::kInput, s.input / s.total},
          {exchange_cause(run), s.network / s.total},
          {Cause::kStraggler, slow ? s.straggler / s.total : 0},
          {Cause::kInterference, s.interference / s.total},
          {Cause::kSharedCores, s.shared_cores / s.total},
          {Cause::kCompression, s.compression / s.total},
          {Cause::kEvaluation, s.evaluation / s.total},
          {Cause::kCheckpoint, s.checkpoint / s.total}};
}

std::vector<CauseShare> listed_parts(const RunSummary& run, const TimeShares& s,
                                     const CompressSetting& compression) {
  std::vector<CauseShare> parts = {
      {computed_on_host(compression) ? Cause::kCompression : Cause::kGradientCopy, s.compression},
      {exchange_cause(run), s.network},
      {Cause::kStraggler, s.straggler - s.awaited},
      {Cause::kInterference, s.interference},
      {Cause::kSharedCores, s.shared_cores},
      {Cause::kInput, s.input},
      {Cause::kContention, s.contention},
      {Cause::kEvaluation, s.evaluation},
      {Cause::kCheckpoint, s.checkpoint},
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
                                              : Cause::kStraggler;
}

Advice advice_for(const Judgement& j, const Efficiency& efficiency, const RunSummary& run) {
  const TimeShares& s = j.shares;
  switch (j.cause) {
    case Cause::kCompute:
      if (s.contention > kMentionedShare * s.total) return Advice::kFreeCores;
      return efficiency.low() ? Advice::kLargerProducts : Advice::kFasterProcessors;
    case Cause::kLocalExchange:
      return on_gpu(run) ? Advice::kOneWorkerPerGpu : Advice::kFewerWorkers;
    case Cause::kStraggler:
      return reason_of_slowest(s) == SlowReason::kQuota ? Advice::kInspectQuota
                                                        : Advice::kInspectHost;
    case Cause::kInput:
      return s.late_input_rank >= 0 ? Advice::kFasterDiskOfRank : Advice::kFasterDisk;
    default:
      return info_of(j.cause).advice;
  }
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

Judgement judge(const RunSummary& run, const StepInterval& interval, TimeShares shares,
                const Efficiency& efficiency, const CompressSetting& compression) {
  Judgement j;
  j.interval = interval;
  j.shares = std::move(shares);
  const TimeShares& s = j.shares;
  j.parts = listed_parts(run, s, compression);
  if (s.total <= 0) return j;
  const Decision decision = decide(s.compute / s.total, causes_of(run, s));
  j.cause = decision.cause;
  j.largest = decision.largest;
  j.confidence = confidence_of(decision.margin);
  if (j.cause == Cause::kStraggler) {
    j.rank = s.slowest_rank;
    j.cause = cause_of_straggler(s);
    if (j.rank < 0) j.confidence = Confidence::kLow;
  }
  if (j.cause == Cause::kInput) j.rank = s.late_input_rank;
  j.advice = advice_for(j, efficiency, run);
  return j;
}

// The last stretch speaks for the run where steps became slower in it, and names why.
bool last_stretch_counts(const RunCourse& course, const Judgement& last) {
  if (course.changes.empty() || !course.changes.back().slower()) return false;
  double all = 0;
  for (const Stretch& stretch : course.stretches) all += stretch.seconds;
  return course.stretches.back().seconds >= kJudgedStretch * all && last.cause != Cause::kCompute &&
         last.cause != Cause::kUnknown;
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
  TimeShares shares = time_shares(run, {}, b.uses);
  b.efficiency = efficiency(run, shares);
  b.whole = judge(run, {}, std::move(shares), b.efficiency, b.compression);
  auto course = std::make_shared<RunCourse>(run_course(run));
  if (b.steps < kFewestSteps) {
    const Judgement found = b.whole;
    b.whole = {.shares = found.shares, .parts = found.parts};
  }
  static_cast<Judgement&>(b) = b.whole;
  if (b.whole.cause != Cause::kUnknown && course->stretches.size() > 1) {
    const Stretch& last = course->stretches.back();
    Judgement late = judge(run, last.steps, last.shares, b.efficiency, b.compression);
    if (last_stretch_counts(*course, late)) {
      static_cast<Judgement&>(b) = std::move(late);
      b.of_last_stretch = true;
    }
  }
  b.course = std::move(course);
  return b;
}

}  // namespace reigen
