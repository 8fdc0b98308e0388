// Verdicts on learning in one sentence each, without figures that need an explanation.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

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
    case LossLevel::Fault::kUnusedSources:
      return "the model has levelled off without learning to translate: what it writes does not "
             "depend on its sources";
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
      if (t.level.useless()) {
        return "the learning rate fell to its end before the model had learnt to translate: only a "
               "run with a longer schedule does";
      }
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
  return t.gains.empty() ? "there are too few evaluations to tell whether the model is trained"
                         : "the evaluations scatter too much to tell whether more steps would help";
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
  if (o.leaked > 0) {
    return "whether the model overfits cannot be told, because validation pairs are among its "
           "training pairs";
  }
  return "there are too few evaluations to tell whether the model overfits";
}

}  // namespace

std::string summary_of(const Trained& trained) { return sentence_of(trained_text(trained)); }

std::string summary_of(const Overfitting& overfitting) {
  return sentence_of(overfitting_text(overfitting));
}

}  // namespace reigen
