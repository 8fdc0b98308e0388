#include "report/verdict/machine/causes.h"

#include <algorithm>

#include "report/verdict/machine/thresholds.h"
#include "report/verdict/verdict_text.h"

namespace reigen {
namespace {

constexpr CauseInfo kCauses[] = {
    {Cause::kUnknown, kCannotTell, "unknown", Advice::kNone},
    {Cause::kCompute, "compute", "compute", Advice::kFasterProcessors},
    {Cause::kNetwork, "network", "waiting for the network", Advice::kFasterLink},
    {Cause::kExchangeWork, "exchange work", "encrypting and adding gradients", Advice::kFewerBytes},
    {Cause::kLocalExchange, "exchange between workers of one machine",
     "gradient exchange between workers of one host", Advice::kFewerWorkers},
    {Cause::kStraggler, "straggler", "waiting for a slower rank", Advice::kInspectHost},
    {Cause::kLateInTurn, "ranks late in turn", "waiting for ranks that were late in turn",
     Advice::kEvenRanks},
    {Cause::kInterference, "interference", "waiting for a core that other processes had",
     Advice::kStopOthers},
    {Cause::kSharedCores, "shared cores", "workers waiting for a core that they share",
     Advice::kFewerThreads},
    {Cause::kQuota, "cpu quota", "stopped by a CPU quota", Advice::kLiftQuota},
    {Cause::kStopped, "stopped", "stopped as a whole", Advice::kKeepRunning},
    {Cause::kSteal, "steal", "waiting for a core that the hypervisor gave to others",
     Advice::kOwnHost},
    {Cause::kMemory, "memory", "waiting for memory", Advice::kMoreMemory},
    {Cause::kGpuShared, "shared GPU", "waiting for a GPU that other processes used",
     Advice::kFreeGpu},
    {Cause::kGpuSlowed, "lowered GPU clock", "lost to a lowered clock of the GPU",
     Advice::kInspectGpu},
    {Cause::kSlowerProcessor, "slower processor", "computing more slowly than before",
     Advice::kInspectClock},
    {Cause::kInput, "input", "waiting for input", Advice::kFasterInput},
    {Cause::kCompression, "compression", "compressing gradients", Advice::kCheaperCompression},
    {Cause::kEvaluation, "evaluation", "evaluation", Advice::kEvaluateLess},
    {Cause::kCheckpoint, "checkpoint", "checkpoint stalls", Advice::kSaveLess},
    {Cause::kLogging, "logging", "writing logs and records", Advice::kLogElsewhere},
    {Cause::kSeveral, "several causes", "several causes", Advice::kNone},
    {Cause::kGradientCopy, "gradient copy", "copying gradients", Advice::kCheaperCompression},
    {Cause::kContention, "contention", "gradient exchange waiting for a CPU core",
     Advice::kFreeCores},
    {Cause::kBetweenSteps, "time between steps", "time between steps", Advice::kReadLog},
    {Cause::kOther, "other", "other work", Advice::kNone},
};

}  // namespace

const CauseInfo& info_of(Cause cause) {
  return *std::find_if(std::begin(kCauses), std::end(kCauses),
                       [&](const CauseInfo& info) { return info.cause == cause; });
}

const char* id_of(Cause cause) { return info_of(cause).id; }

Cause cause_of(std::string_view id) {
  const auto* found = std::find_if(std::begin(kCauses), std::end(kCauses),
                                   [&](const CauseInfo& info) { return info.id == id; });
  return found == std::end(kCauses) ? Cause::kUnknown : found->cause;
}

Decision decide(double compute, std::vector<CauseShare> others) {
  std::stable_sort(others.begin(), others.end(),
                   [](const CauseShare& a, const CauseShare& b) { return a.share > b.share; });
  others.resize(std::max<size_t>(2, others.size()));
  Decision decision = {.largest = others[0]};
  const double limit = compute > kMostlyCompute ? kNamedShareBesideCompute : kNamedShare;
  if (others[0].share < limit) {
    const bool computes = compute >= kMostlyCompute;
    decision.cause = computes ? Cause::kCompute : Cause::kSeveral;
    decision.margin = computes ? compute - others[0].share : limit - others[0].share;
    return decision;
  }
  decision.cause = others[0].cause;
  // A share near the limit is no doubt in the cause: both verdicts are then true.
  decision.margin = others[0].share - others[1].share;
  return decision;
}

}  // namespace reigen
