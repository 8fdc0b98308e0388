// A verdict in one sentence, without figures that need an explanation.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/format.h"
#include "report/verdict/thresholds.h"
#include "report/verdict/wording.h"

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
                    b.shares.comparable ? "their logs have not arrived yet"
                                        : "which ones is unknown, because the number of workers "
                                          "changed");
    case Cause::kUnknown:
      break;
  }
  return "";
}

std::string step_text(double step) { return with_commas(static_cast<uint64_t>(step)); }

// "0.150 (80% interval 0.100 to 0.210)"; of a gain whose interval has one sign.
std::string amount_text(const ExpectedGain& gain) {
  const double near = std::min(std::abs(gain.low), std::abs(gain.high));
  const double far = std::max(std::abs(gain.low), std::abs(gain.high));
  return format("{:.3f} (80% interval {:.3f} to {:.3f})", std::abs(gain.gain), near, far);
}

std::string improving_text(const Trained& t) {
  if (t.evidence == Trained::Evidence::kDecay) {
    return "the model still improves: the decay of its learning rate, in which the loss falls, "
           "is not over";
  }
  if (t.gains.size() < 2) return "the model still improves, as far as its few evaluations tell";
  return format(
      "the model still improves: half as many more steps are expected to lower "
      "validation loss by {}",
      amount_text(t.gains[1]));
}

std::string useless_text(const LossLevel& level) {
  switch (level.fault) {
    case LossLevel::Fault::kWorseThanGuessing:
      return format(
          "the model is of no use: its best validation loss, {:.3f}, is not below that "
          "of guessing, {:.3f}",
          level.valid, level.guessing);
    case LossLevel::Fault::kHardlyLearns:
      return level.rate_too_low()
                 ? "the model hardly learns, likely because its learning rate is too low"
                 : "the model hardly learns: its loss stands above that of knowing only how often "
                   "each piece occurs";
    case LossLevel::Fault::kUnlikeValidation:
      return "this validation text cannot tell whether the model is trained: it is unlike the "
             "training text";
    default:
      return "the model has learnt only how often each piece occurs, and nothing of translation";
  }
}

std::string trained_text(const Trained& t) {
  switch (t.answer) {
    case Trained::Answer::kYes:
      return "the model is trained: more steps would change its validation loss by next to nothing";
    case Trained::Answer::kPastItsBest:
      return format(
          "the model is past its best: validation loss was {:.3f} at step {} and is "
          "{:.3f}",
          t.trend.best, step_text(t.trend.best_step), t.trend.last);
    case Trained::Answer::kNearBest:
      return "the model is at or near its best: more steps are expected to bring little, or harm";
    case Trained::Answer::kScheduleOver:
      return "the model is trained as far as its schedule goes: the learning rate is at its end, "
             "and only a run with a longer schedule gains more";
    case Trained::Answer::kImproving:
      return improving_text(t);
    case Trained::Answer::kGettingWorse:
      return format(
          "the model has become worse since step {}: validation loss rose from {:.3f} to "
          "{:.3f}, and training loss did not fall",
          step_text(t.trend.best_step), t.trend.best, t.trend.last);
    case Trained::Answer::kUseless:
      return useless_text(t.level);
    case Trained::Answer::kDiverged:
      return format("training diverged at step {}: {}", with_commas(t.step),
                    t.stopped ? "losses or gradients were no longer finite"
                              : "training loss rose and has not come back");
    case Trained::Answer::kUnknown:
      break;
  }
  return t.gains.empty() ? "too few evaluations tell whether the model is trained"
                         : "whether more steps would help cannot be told, because the evaluations "
                           "scatter too much";
}

std::string overfitting_text(const Overfitting& o) {
  switch (o.answer) {
    case Overfitting::Answer::kYes:
      return format("the model has overfitted since step {}: use the checkpoint best-loss",
                    step_text(o.trend.best_step));
    case Overfitting::Answer::kNear:
      return "the model is about to overfit: training loss falls, and validation loss hardly does";
    case Overfitting::Answer::kNo:
      return o.less_dropout > 0
                 ? "the model does not overfit; a dropout that is too high holds it back"
                 : "the model does not overfit: validation loss and training loss go together";
    case Overfitting::Answer::kUnknown:
      break;
  }
  return "too few evaluations tell whether the model overfits";
}

// As a sentence.
std::string sentence(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

}  // namespace

std::string summary_of(const Trained& trained) { return sentence(trained_text(trained)); }

std::string summary_of(const Overfitting& overfitting) {
  return sentence(overfitting_text(overfitting));
}

std::string summary_of(const Bottleneck& b) {
  std::string text = cause_text(b);
  if (text.empty()) return text;
  if (b.of_last_stretch) {
    const double step = b.course->changes.back().step;
    text = format("from step {} on, {}", with_commas(static_cast<uint64_t>(step)), text);
  }
  return sentence(text);
}

std::vector<std::string> clauses_of(const std::string& text) {
  constexpr std::string_view kBetween = "; ";
  std::vector<std::string> clauses;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(kBetween, begin), text.size());
    clauses.push_back(text.substr(begin, end - begin));
    begin = end + kBetween.size();
  }
  return clauses;
}

}  // namespace reigen
