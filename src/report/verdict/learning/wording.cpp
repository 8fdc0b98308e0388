// The sentences of the verdicts on learning: trained, overfitting. Advice is a command that can be
// typed, with the run's own path and numbers, and its expected effect.
#include "report/verdict/learning/wording.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/verdict/learning/advice.h"

namespace reigen {
namespace {

std::string plan_text(const Plan& plan) {
  if (plan.last > 0) {
    return format("{} of {} steps are done ({})", step_number(plan.step), step_number(plan.last),
                  percent_text(plan.step / plan.last));
  }
  if (plan.last_epoch > 0) {
    return format("{:.2f} of {:.4g} epochs are done ({})", plan.epochs, plan.last_epoch,
                  percent_text(plan.share()));
  }
  return "";
}

bool in_first_epoch(const Plan& plan) { return plan.epochs > 0 && plan.epochs <= 1; }

// "0.006 less", or "0.006 more", "0" without a sign.
std::string change_text(double gain, const char* less, const char* more, int digits) {
  return format("{:.{}f} {}", std::abs(gain), digits, gain >= 0 ? less : more);
}

std::string interval_text(const ExpectedGain& gain, const char* less, const char* more,
                          int digits) {
  const bool one_side = (gain.low >= 0) == (gain.high >= 0);
  if (!one_side) {
    return format("80% interval {} to {}", change_text(gain.low, less, more, digits),
                  change_text(gain.high, less, more, digits));
  }
  const double near = std::min(std::abs(gain.low), std::abs(gain.high));
  const double far = std::max(std::abs(gain.low), std::abs(gain.high));
  return format("80% interval {:.{}f} to {:.{}f}", near, digits, far, digits);
}

// The expected effect of half as many more steps.
std::string half_text(const Trained& t) {
  const double target = std::round(t.losses.back().first * (1 + t.gains[1].more));
  return format("expected from {} more steps, at step {}: {}", percent_text(t.gains[1].more),
                step_number(target), expected_text(t, 1));
}

// "the learning rate is still in its warm-up (step 300 of 4,000), at 7% of its peak"
std::string warmup_text(const Trained& t) {
  if (t.warmup_end == 0) return "";
  return format("the learning rate is still in its warm-up (step {} of {}), at {:.2g}",
                step_number(t.plan.step), step_number(t.warmup_end), t.rate);
}

std::string prediction_text(const Trained& t) {
  std::string text = plan_text(t.plan);
  append_clause(text, warmup_text(t));
  if (t.gains.empty()) return text;
  if (t.to_end && t.plan.last > t.plan.step) {
    append_clause(text, format("expected up to the planned end, step {}: {}",
                               step_number(t.plan.last), text_of(*t.to_end)));
  }
  append_clause(text, half_text(t));
  return text;
}

std::string no_prediction_text(const Trained& t) {
  return format("a prediction needs {}, and the run has {}",
                counted(kFewestEvaluations, "evaluation"), t.losses.size());
}

std::string few_text(const Trained& t) {
  std::string text = plan_text(t.plan);
  append_clause(text, warmup_text(t));
  if (t.losses.size() >= 2) {
    const auto& [step, loss] = t.losses.back();
    const auto& [step_before, loss_before] = t.losses[t.losses.size() - 2];
    append_clause(text, format("validation loss was {:.3f} at step {} and {:.3f} at step {}",
                               loss_before, step_number(step_before), loss, step_number(step)));
  } else if (t.late_training > 0) {
    append_clause(text,
                  format("mean training loss was {:.3f} in the first third of the steps and {:.3f} "
                         "in the last third",
                         t.early_training, t.late_training));
  }
  append_clause(text, no_prediction_text(t));
  return text;
}

std::string over_text(const Trained& t) {
  const bool lasting = t.rate_since < t.plan.step;
  std::string text =
      t.phase == RateDecay::Phase::kAfter
          ? format(
                "the decay of the learning rate has ended, so more steps at its last rate of "
                "{:.2g} gain nothing",
                t.rate)
          : format(
                "the learning rate {} {:.2g}{}, after a peak of {:.2g}, so more steps change next "
                "to nothing",
                lasting ? "is" : "has fallen to", t.rate,
                lasting ? " since step " + step_number(t.rate_since) : "", t.peak_rate);
  if (t.of_longer) {
    append_clause(text,
                  format("by the losses before the decay, a run that is 50% longer from the start "
                         "is expected to end with {}",
                         text_of(*t.of_longer)));
  } else {
    append_clause(
        text, "the gain of a longer schedule cannot be predicted from losses under a falling rate");
  }
  return text;
}

// "training loss rose from 1.210 to 6.400 at step 240 and was back at step 260; ..."
std::string rise_text(const LossRise& rise) {
  std::string text =
      format("training loss rose from {:.3f} to {:.3f} at step {} and {}", rise.before, rise.after,
             step_number(rise.step),
             rise.lasts() ? "has not come back" : "was back at step " + step_number(rise.end));
  if (std::isfinite(rise.norm_after) && rise.norm_before > 0) {
    text += format(", with a mean gradient norm of {:.2g} instead of {:.2g}", rise.norm_after,
                   rise.norm_before);
  }
  return text;
}

// Rises of training loss, and steps that changed nothing.
std::string unrest_text(const Trained& t) {
  constexpr size_t kMostRises = 3;
  std::string text;
  const size_t first = t.rises.size() - std::min(t.rises.size(), kMostRises);
  for (size_t i = first; i < t.rises.size(); ++i) append_clause(text, rise_text(t.rises[i]));
  if (t.skipped_share >= kManySkipped && !t.stopped) {
    append_clause(text,
                  format("{} of the steps ({}) changed nothing, because loss or gradient was "
                         "not finite{}",
                         percent_text(t.skipped_share), with_commas(t.skipped_steps),
                         t.fp16 ? ": numbers of fp16 have too small a range for this run" : ""));
  }
  return text;
}

std::string trained_rule() {
  return format(
      "the gain of more steps is predicted from the slopes of validation and training loss over "
      "the last third and the last 60% of the steps and from the learning rates that the schedule "
      "has ahead, by weights fitted to real runs. Levelled off: the 80% interval of 50% more steps "
      "is within {:.0f}% of the loss, and training loss no longer falls. Near its best: training "
      "loss still falls, or the interval shows no gain above {:.0f}%. Past its best: it overfits. "
      "Getting worse: at least {} in a row at the end are {} "
      "above the best and training loss did not fall either. Of no use: the best loss is not below "
      "ln(vocabulary), or stands at the entropy of single pieces or above it. Diverged: loss or "
      "gradient was not finite for many steps, or training loss rose by half and stays there. As "
      "far as its schedule goes: the "
      "mean learning rate ahead is below {:.0f}% of the peak. With fewer than {}: still improving "
      "when the last loss is the best and more than {} below the previous one",
      100 * kSmallGain, 100 * kTrainedGain, counted(kWorseInRow, "evaluation"),
      percent_text(kWorseLoss), 100 * kRateOver, counted(kFewestEvaluations, "evaluation"),
      percent_text(kClearFall));
}

std::string decay_text(const Trained& t) {
  std::string text = prediction_text(t);
  append_clause(
      text, t.phase == RateDecay::Phase::kWithin
                ? "the decay of the learning rate, in which validation loss falls, has not ended"
                : "the decay of the learning rate, in which validation loss falls, is still "
                  "ahead");
  return text;
}

std::string getting_worse_text(const Trained& t) {
  return format(
      "validation loss is {:.3f}, its best was {:.3f} at step {}; training loss did not fall "
      "either: {:.3f} then, {:.3f} now",
      t.trend.last, t.trend.best, step_number(t.trend.best_step), t.trend.train_at_best,
      t.trend.train_now);
}

void describe_known(const Trained& t, VerdictText& v) {
  switch (t.answer) {
    case Trained::Answer::kYes:
      v.verdict = "yes, its loss has levelled off";
      v.because = prediction_text(t);
      break;
    case Trained::Answer::kPastItsBest:
      v.verdict = "yes, and past its best";
      v.because = format("{}validation loss is {:.3f} and was {:.3f} at step {}",
                         in_first_epoch(t.plan) ? "" : "the model overfits: ", t.trend.last,
                         t.trend.best, step_number(t.trend.best_step));
      if (in_first_epoch(t.plan)) {
        append_clause(v.because,
                      "training loss fell further, which is not memorisation in the first epoch: "
                      "the model learns from traits that validation text lacks");
      }
      v.advice = best_checkpoint_advice(t.run, t.trend);
      break;
    case Trained::Answer::kNearBest:
      v.verdict = "at or near its best";
      v.because = prediction_text(t);
      if (t.trend.best < t.trend.last) v.advice = best_checkpoint_advice(t.run, t.trend);
      break;
    case Trained::Answer::kScheduleOver:
      v.verdict = "as far as its schedule goes";
      v.because = over_text(t);
      v.advice = longer_run_advice(t);
      break;
    case Trained::Answer::kImproving:
      v.verdict = "no, still improving";
      v.because = t.evidence == Trained::Evidence::kTooFew  ? few_text(t)
                  : t.evidence == Trained::Evidence::kDecay ? decay_text(t)
                                                            : prediction_text(t);
      v.advice = train_on_advice(t);
      break;
    case Trained::Answer::kGettingWorse:
      v.verdict = format("no, getting worse since step {}", step_number(t.trend.best_step));
      v.because = getting_worse_text(t);
      v.advice = lower_rate_advice(t, 3);
      append_clause(v.advice, best_checkpoint_advice(t.run, t.trend));
      break;
    case Trained::Answer::kUseless:
      v.verdict = t.level.fault == LossLevel::Fault::kWorseThanGuessing
                      ? "no, validation loss is worse than guessing"
                  : t.level.fault == LossLevel::Fault::kUnlikeValidation
                      ? "cannot be judged by this validation text"
                  : t.level.fault == LossLevel::Fault::kUnusedSources
                      ? "no, its loss has levelled off and its sources are not used"
                  : t.level.fault == LossLevel::Fault::kHardlyLearns
                      ? "no, it hardly learns"
                      : "no, so far the model has learnt only how often each piece occurs";
      v.because = level_text(t.level);
      append_clause(v.because, useless_reason(t));
      if (!t.gains.empty()) append_clause(v.because, half_text(t));
      v.advice = useless_advice(t);
      break;
    case Trained::Answer::kDiverged:
      v.verdict = format("no, diverged at step {}", with_commas(t.step));
      if (t.stopped) {
        v.because = format("loss or gradient was not finite, and the run stopped after skipping {}",
                           counted(t.skipped_steps, "step"));
      } else if (t.trend.best > 0) {
        v.because = format("validation loss is {:.3f} and was {:.3f} at step {}", t.trend.last,
                           t.trend.best, step_number(t.trend.best_step));
      }
      v.advice = lower_rate_advice(t, 3);
      if (!t.stopped && t.trend.last > t.trend.best) {
        append_clause(v.advice, best_checkpoint_advice(t.run, t.trend));
      }
      break;
    case Trained::Answer::kUnknown:
      break;
  }
}

}  // namespace

std::string text_of(const ExpectedGain& gain) {
  return format("{} loss ({})", change_text(gain.gain, "less", "more", 3),
                interval_text(gain, "less", "more", 3));
}

std::string text_of_bleu(const ExpectedGain& gain) {
  return format("{} BLEU ({})", change_text(gain.gain, "more", "less", 1),
                interval_text(gain, "more", "less", 1));
}

VerdictText text_of(const Overfitting& o) {
  VerdictText v = {.about = "overfitting", .confidence = id_of(o.confidence)};
  v.rule = format(
      "yes when validation loss was more than {} above its best in at least the last {}, while "
      "training loss fell further after that best; near when validation loss falls less than {} as "
      "fast as training loss after the first epoch. Training loss is the mean of the steps since "
      "the previous evaluation",
      percent_text(kWorseLoss), counted(kWorseInRow, "evaluation"), percent_text(kNearTurn));
  const LossTrend& t = o.trend;
  const char* dropout = o.dropout ? " (with dropout)" : "";
  std::string because =
      t.later == 0
          ? format("validation loss is {:.3f}, its best so far; training loss{} is {:.3f}", t.last,
                   dropout, t.train_now)
          : format(
                "validation loss is {:.3f}, its best was {:.3f} at step {}; training "
                "loss{} was {:.3f} then and is {:.3f} now",
                t.last, t.best, step_number(t.best_step), dropout, t.train_at_best, t.train_now);
  append_clause(because, format("validation loss is {:.3f} {} training loss after {:.2g} epochs",
                                std::abs(t.gap()), t.gap() >= 0 ? "above" : "below", o.epochs));
  switch (o.answer) {
    case Overfitting::Answer::kUnknown:
      v.verdict = kCannotTell;
      v.because =
          o.leaked > 0
              ? format(
                    "{} of the validation or test set are training pairs, too, so validation "
                    "loss does not tell how well the model does on text that it has not seen",
                    counted(o.leaked, "pair"))
              : format("a verdict needs {}, and the run has {}",
                       counted(kFewestForTrend, "evaluation"), o.evaluations);
      break;
    case Overfitting::Answer::kNo:
      v.verdict = o.less_dropout > 0 ? "no; dropout holds the model back" : "no";
      v.because = because;
      if (o.less_dropout > 0) {
        append_clause(v.because,
                      format("with dropout {:.2g}, training loss is more than {} above validation "
                             "loss, which has none",
                             o.dropout_rate, percent_text(kHeldBack - 1)));
        v.advice = less_dropout_advice(o);
      }
      if (o.turned) {
        append_clause(v.because,
                      "in the first epoch all training text is new, so none of it is memorised");
      }
      break;
    case Overfitting::Answer::kNear:
      v.verdict = "not yet, but near";
      v.because = because;
      append_clause(v.because,
                    o.speed <= 0
                        ? "in the last third of the steps training loss fell and validation "
                          "loss did not"
                        : format("in the last third of the steps validation loss fell {} as "
                                 "fast as training loss",
                                 percent_text(o.speed)));
      v.advice =
          "more data or more dropout helps; further steps will soon make validation loss "
          "worse, and best-loss retains the best checkpoint";
      break;
    case Overfitting::Answer::kYes:
      v.verdict = format("yes, since step {}", step_number(t.best_step));
      v.because = because;
      v.advice = format("{}; more data, more dropout or a smaller model helps, more steps do not",
                        best_checkpoint_advice(o.run, t));
      break;
  }
  v.summary = summary_of(o);
  return v;
}

VerdictText text_of(const Trained& t) {
  VerdictText v = {.about = "trained", .confidence = id_of(t.confidence), .rule = trained_rule()};
  if (t.answer == Trained::Answer::kUnknown) {
    v.verdict = kCannotTell;
    if (t.gains.empty()) {
      v.because = few_text(t);
    } else {
      v.because = "the evaluations scatter too much for an answer";
      append_clause(v.because, prediction_text(t));
    }
  } else {
    describe_known(t, v);
  }
  if (t.answer != Trained::Answer::kUseless) append_clause(v.because, level_text(t.level));
  append_clause(v.because, unrest_text(t));
  if (t.fp16 && t.skipped_share >= kManySkipped) append_clause(v.advice, wider_range_advice(t));
  v.summary = summary_of(t);
  return v;
}

}  // namespace reigen
