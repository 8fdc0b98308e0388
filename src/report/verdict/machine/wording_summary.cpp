// The bottleneck in one sentence, without figures that need an explanation.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/verdict/machine/thresholds.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

double share_of(const Bottleneck& b, Cause cause) {
  if (b.largest.cause == cause) return b.largest.share;
  const auto part = std::find_if(b.parts.begin(), b.parts.end(),
                                 [&](const CauseShare& p) { return p.cause == cause; });
  return part == b.parts.end() ? b.largest.share : part->share;
}

std::string share_text(const Bottleneck& b, Cause cause) {
  return format("{:.0f}% of the time", 100 * share_of(b, cause));
}

std::string late_text(const Bottleneck& b) {
  std::vector<int> ranks;
  for (const LateRank& late : b.shares.late) ranks.push_back(late.rank);
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) ranks.push_back(b.rank);
  std::string text = format("the other ranks waited for {} for {}", ranks_text(ranks),
                            share_text(b, Cause::kStraggler));
  if (b.cause == Cause::kInterference) text += ", because other processes had its cores";
  if (b.cause == Cause::kSharedCores) text += ", because workers share cores there";
  if (b.cause == Cause::kSteal) text += ", because the hypervisor gave its cores to others";
  if (b.cause == Cause::kMemory) text += ", because it is short of memory";
  if (b.cause == Cause::kGpuShared) text += ", because other processes use its GPU";
  if (b.cause == Cause::kGpuSlowed) text += ", because its GPU has lowered its clock";
  return text;
}

std::string cause_text(const Bottleneck& b) {
  if (b.rank >= 0 && b.cause != Cause::kInput) return late_text(b);
  switch (b.cause) {
    case Cause::kCompute: {
      const double computing = b.shares.all_compute() / std::max(1e-9, b.shares.total);
      std::string text = format("the run computed for {:.0f}% of the time", 100 * computing);
      if (b.efficiency.low()) {
        text += format(", at {:.0f}% of the speed of large matrix products",
                       100 * b.efficiency.share());
      }
      if (b.largest.share < kMentionedShare) text += "; nothing else slowed it down much";
      return text;
    }
    case Cause::kNetwork:
      return "steps waited for the network for " + share_text(b, b.cause);
    case Cause::kExchangeWork:
      return format("steps waited for {} for gradients that processors were encrypting and adding",
                    share_text(b, b.cause));
    case Cause::kLocalExchange:
      return format("workers of one host exchanged gradients for {}", share_text(b, b.cause));
    case Cause::kInterference:
      return format("other processes had the cores of this run: {} was lost waiting for them",
                    share_text(b, b.cause));
    case Cause::kSharedCores:
      return format("there are more threads than cores: {} was lost waiting for one",
                    share_text(b, b.cause));
    case Cause::kQuota:
      return "a CPU quota stopped this run for " + share_text(b, b.cause);
    case Cause::kStopped:
      return "the process of this run was stopped as a whole for " + share_text(b, b.cause);
    case Cause::kSteal:
      return format("the hypervisor gave the cores of this run to others for {}",
                    share_text(b, b.cause));
    case Cause::kMemory:
      return format("the run waited for memory for {}", share_text(b, b.cause));
    case Cause::kGpuShared:
      return format("other processes computed on the GPU of this run: about {} was lost",
                    share_text(b, b.cause));
    case Cause::kGpuSlowed:
      return format("the GPU of this run did not reach its clock: up to {} was lost",
                    share_text(b, b.cause));
    case Cause::kSlowerProcessor: {
      const Change& change = b.course->changes.back();
      return format("the same computing takes {:.1f} times as long as before",
                    change.after / change.before);
    }
    case Cause::kLateInTurn:
      return format("rank 0 waited for {}, each time for a different rank", share_text(b, b.cause));
    case Cause::kContention:
      return format("gradient exchanges waited for a free core for {}", share_text(b, b.cause));
    case Cause::kLogging:
      return "writing logs and records took " + share_text(b, b.cause);
    case Cause::kBetweenSteps:
      return format("{} lies between steps, in no evaluation and no checkpoint",
                    share_text(b, b.cause));
    case Cause::kOther:
      return format("{} is in no part of a step that is measured", share_text(b, b.cause));
    case Cause::kSeveral:
      return format("no single cause: {:.0f}% of the time was compute, {}",
                    100 * b.shares.all_compute() / std::max(1e-9, b.shares.total),
                    text_of(b.parts));
    case Cause::kInput:
      return format("{} waited for input for {}",
                    b.rank >= 0 ? format("rank {}", b.rank) : std::string("steps"),
                    share_text(b, b.cause));
    case Cause::kCompression:
      return "compressing gradients took " + share_text(b, b.cause);
    case Cause::kGradientCopy:
      return "copying gradients took " + share_text(b, b.cause);
    case Cause::kEvaluation:
      return "evaluations took " + share_text(b, b.cause);
    case Cause::kCheckpoint:
      return "checkpoints took " + share_text(b, b.cause);
    case Cause::kStraggler:
      return format("rank 0 waited for slower ranks for {}; {}", share_text(b, b.cause),
                    b.shares.comparable
                        ? "their logs have not arrived yet"
                        : "they are unknown, because the number of workers changed");
    case Cause::kUnknown:
      break;
  }
  return "";
}

}  // namespace

std::string summary_of(const Bottleneck& b) {
  std::string text = cause_text(b);
  if (text.empty()) return text;
  if (b.of_last_stretch) {
    const double step = b.course->changes.back().step;
    text = format("from step {} on, {}", with_commas(static_cast<uint64_t>(step)), text);
  }
  return sentence_of(text);
}

}  // namespace reigen
