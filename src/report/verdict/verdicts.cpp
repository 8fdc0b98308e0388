#include "report/verdict/verdicts.h"

#include <algorithm>

#include "base/error.h"
#include "dist/compress/compressor.h"
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

Advice advice_for(const Bottleneck& b, const RunSummary& run) {
  const TimeShares& s = b.shares;
  const bool descheduled =
      s.slowest_rank == s.descheduled_rank && s.descheduled_share >= kDescheduledShare;
  switch (b.cause) {
    case Cause::kCompute:
      if (s.contention > kMentionedShare * s.total) return Advice::kFreeCores;
      return b.efficiency.low() ? Advice::kLargerProducts : Advice::kFasterProcessors;
    case Cause::kLocalExchange:
      return on_gpu(run) ? Advice::kOneWorkerPerGpu : Advice::kFewerWorkers;
    case Cause::kStraggler:
      return descheduled ? Advice::kInspectQuota : Advice::kInspectHost;
    case Cause::kInput:
      return s.late_input_rank >= 0 ? Advice::kFasterDiskOfRank : Advice::kFasterDisk;
    default:
      return info_of(b.cause).advice;
  }
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

Bottleneck bottleneck(const RunSummary& run, const TimeShares& s) {
  Bottleneck b;
  b.steps = std::max(0.0, run.steps.total("steps") - 1);
  b.shares = s;
  b.time = run_time(run);
  b.compression = compression_of(run);
  b.parts = listed_parts(run, s, b.compression);
  if (b.steps < kFewestSteps || s.total <= 0) return b;
  b.efficiency = efficiency(run, s);
  const Decision decision = decide(s.compute / s.total, causes_of(run, s));
  b.cause = decision.cause;
  b.largest = decision.largest;
  b.confidence = confidence_of(decision.margin);
  if (b.cause == Cause::kStraggler) b.rank = s.slowest_rank;
  if (b.cause == Cause::kInput) b.rank = s.late_input_rank;
  b.advice = advice_for(b, run);
  return b;
}

}  // namespace reigen
