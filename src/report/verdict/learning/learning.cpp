// Whether a model is trained and whether it overfits.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "report/verdict/learning/learning.h"

namespace reigen {
namespace {

// A last loss that is the best and clearly below the previous one shows that the run improves,
// where evaluations are too few for a prediction.
bool still_falls(const Points& losses) {
  if (losses.size() < 2) return false;
  const auto best =
      std::min_element(losses.begin(), losses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return best + 1 == losses.end() &&
         best->second < (1 - kClearFall) * losses[losses.size() - 2].second;
}

// Mean training loss of the first and of the last third of the steps.
std::pair<double, double> training_fall(const RunSummary& run) {
  const Points all = training_losses(run);
  const size_t third = all.size() / 3;
  if (third == 0) return {0, 0};
  double early = 0;
  double late = 0;
  for (size_t i = 0; i < third; ++i) {
    early += all[i].second / static_cast<double>(third);
    late += all[all.size() - 1 - i].second / static_cast<double>(third);
  }
  return {early, late};
}

void judge_few(const RunSummary& run, Trained& t) {
  t.evidence = Trained::Evidence::kTooFew;
  std::tie(t.early_training, t.late_training) = training_fall(run);
  const bool training_falls = t.late_training < (1 - kClearFall) * t.early_training;
  const bool early = t.plan.share() > 0 && t.plan.share() < 1;
  if (still_falls(t.losses) || (t.losses.size() < 2 && early && training_falls)) {
    t.answer = Trained::Answer::kImproving;
    t.confidence = Confidence::kLow;
  }
}

// Whether training loss still falls.
bool learns(const CurveShape& shape) { return -shape.short_train > kLearningSlope * shape.level; }

bool within(const ExpectedGain& gain, double limit) {
  return gain.low > -limit && gain.high < limit;
}

void judge_by_prediction(Trained& t) {
  const ExpectedGain& half = t.gains[1];  // of 50% more steps
  const double loss = t.losses.back().second;
  const double limit = kTrainedGain * loss;
  t.evidence = Trained::Evidence::kPrediction;
  if (half.low > 0) {
    const bool certain = half.gain > kCertain * half.deviation;
    const bool little = half.high < limit;
    t.answer = little ? Trained::Answer::kYes : Trained::Answer::kImproving;
    t.confidence = certain ? Confidence::kHigh : Confidence::kMedium;
  } else if (!t.training_falls && within(half, kSmallGain * loss)) {
    t.answer = Trained::Answer::kYes;
    t.confidence = within(half, limit) ? Confidence::kMedium : Confidence::kLow;
  } else if (half.high < limit || within(half, kSmallGain * loss)) {
    t.answer = Trained::Answer::kNearBest;
    t.confidence = half.high < 0 ? Confidence::kMedium : Confidence::kLow;
  } else {
    t.evidence = Trained::Evidence::kScatter;
  }
}

// The same run, but with a rate that decays in a straight line from its last evaluation on.
LearningCurve with_decay(const LearningCurve& curve, double steps) {
  const double begin = curve.points.back().step;
  LearningCurve decaying = curve;
  decaying.rate = [rate = curve.rate, begin, steps](double step) {
    if (step <= begin) return rate(step);
    return rate(begin) * std::max(0.0, 1 - (step - begin) / (steps + 1));
  };
  return decaying;
}

// BLEU follows the loss: its gain is that of the loss times the slope of BLEU over loss among the
// evaluations of the last 60% of the steps, and its error comes from both.
std::vector<ExpectedGain> gains_of_bleu(const RunSummary& run, const Trained& t) {
  std::vector<BleuPoint> curve;
  for (const EvaluationRecord& e : run.evaluations) {
    if (e.bleu && std::isfinite(e.nll)) {
      curve.push_back({static_cast<double>(e.step), e.nll, *e.bleu});
    }
  }
  const auto shape = bleu_shape_of(curve);
  std::vector<ExpectedGain> gains;
  if (!shape || curve.back().step < t.losses.back().first) return gains;
  gains.reserve(t.gains.size());
  for (const ExpectedGain& gain : t.gains) gains.push_back(expected_bleu(*shape, gain));
  return gains;
}

void predict(const RunSummary& run, const RateDecay& decay, const LearningCurve& curve,
             Trained& t) {
  const auto shape = shape_of(curve);
  if (!shape) return;
  t.training_falls = learns(*shape);
  for (const double more : kMoreSteps) t.gains.push_back(expected_gain(curve, *shape, more));
  t.bleu_gains = gains_of_bleu(run, t);
  const double left = t.plan.last / shape->step - 1;
  if (left > 0 && left <= kMoreSteps.back()) t.to_end = expected_gain(curve, *shape, left);
  const bool falling = t.rate < kFallenRate * t.peak_rate;
  if (decay.phase == RateDecay::Phase::kNone && !falling && t.warmup_end == 0) {
    t.decay_steps = std::round(kAdvisedDecay * t.plan.step);
    const LearningCurve decaying = with_decay(curve, t.decay_steps);
    t.of_decay = expected_gain(decaying, *shape, kAdvisedDecay);
  }
}

// After its decay: the gain that half as many more steps at the peak rate would have brought before
// it, because a decay of the same share lowers the loss by about as much.
void predict_longer(const RateDecay& decay, LearningCurve curve, Trained& t) {
  std::erase_if(curve.points, [&](const EvaluatedPoint& point) {
    return point.step < decay.first || point.step > decay.begin;
  });
  curve.rate = [](double) { return 1.0; };
  if (const auto shape = shape_of(curve)) t.of_longer = expected_gain(curve, *shape, 0.5);
}

bool schedule_over(const LearningCurve& curve, const Trained& t) {
  if (t.rate > kRateNearEnd * t.peak_rate) return false;
  double ahead = 0;
  constexpr int kSamples = 32;
  for (int i = 0; i < kSamples; ++i) {
    ahead += curve.rate(t.plan.step * std::pow(2.0, (i + 0.5) / kSamples) + 1) / kSamples;
  }
  return ahead <= kRateOver * t.peak_rate;
}

void note_rates(const LearningCurve& curve, Trained& t) {
  constexpr int kSamples = 512;
  t.rate = curve.rate(t.plan.step);
  for (int i = 1; i <= kSamples; ++i) {
    t.peak_rate = std::max(t.peak_rate, curve.rate(t.plan.step * i / kSamples));
  }
}

// Of a run within its warm-up, which is then longer than the steps so far.
double warmup_end(const LearningCurve& curve, const LearningContext& context, const Trained& t) {
  if (!context.options || curve.rate(t.plan.step + 1) <= t.rate) return 0;
  const auto end = static_cast<double>(context.options->schedule.warmup_steps);
  return end > t.plan.step ? end : 0;
}

// The first of the steps at the last rate.
double rate_since(const LearningCurve& curve, const Trained& t) {
  constexpr double kMostSteps = 2e6;  // that are looked back
  const double first = std::max(1.0, t.plan.step - kMostSteps);
  double step = t.plan.step;
  while (step > first && curve.rate(step - 1) <= t.rate) step -= 1;
  return step;
}

void judge_by_schedule(const RunSummary& run, const RateDecay& decay, const LearningCurve& curve,
                       Trained& t) {
  using Phase = RateDecay::Phase;
  if (t.phase == Phase::kBefore || t.phase == Phase::kWithin) {
    predict(run, decay, curve, t);
    t.evidence = Trained::Evidence::kDecay;
    t.confidence = Confidence::kMedium;
    const bool turns = t.to_end && t.to_end->high < 0;
    t.answer = turns ? Trained::Answer::kNearBest : Trained::Answer::kImproving;
    return;
  }
  if (schedule_over(curve, t)) {
    t.answer = Trained::Answer::kScheduleOver;
    t.rate_since = rate_since(curve, t);
    t.confidence = Confidence::kHigh;
    if (t.phase == Phase::kAfter) predict_longer(decay, curve, t);
    return;
  }
  predict(run, decay, curve, t);
  if (t.gains.empty()) {
    judge_few(run, t);
  } else {
    judge_by_prediction(t);
  }
}

// A rate that fell to nothing before the model had learnt anything is the reason that it has not.
bool stopped_by_schedule(const LearningCurve& curve, const Trained& t) {
  using Phase = RateDecay::Phase;
  const bool little = t.level.fault == LossLevel::Fault::kFrequenciesOnly ||
                      t.level.fault == LossLevel::Fault::kHardlyLearns;
  return little && t.phase != Phase::kBefore && t.phase != Phase::kWithin &&
         schedule_over(curve, t);
}

// A model whose loss has levelled off although its translations do not depend on their sources.
// Where training loss is lower, it has learnt something that validation pairs do not have.
void look_for_unused_sources(const RunSummary& run, Trained& t) {
  const bool level = t.answer == Trained::Answer::kYes || t.answer == Trained::Answer::kNearBest;
  const std::optional<SourceUse> use = source_use(run);
  if (!level || !use || use->share() >= kUsedSource || use->step < t.plan.step / 2) return;
  if (t.level.unlike || t.trend.train_now < (1 - kUnlikeGap) * t.trend.last) return;
  t.answer = Trained::Answer::kUseless;
  t.level.fault = LossLevel::Fault::kUnusedSources;
  t.level.sources = *use;
  t.confidence = Confidence::kMedium;
}

// Whether more steps may bring the loss back to its best. Losses that rise while a model memorises
// its text, or at a rate that is too high, sometimes fall again.
bool may_return(const LearningCurve& curve, const LossTrend& trend) {
  const auto shape = shape_of(curve);
  if (!shape) return true;
  return std::any_of(kMoreSteps.begin(), kMoreSteps.end(), [&](double more) {
    const ExpectedGain gain = expected_gain(curve, *shape, more);
    return gain.gain + kCertain * gain.deviation >= trend.last - trend.best;
  });
}

Confidence confidence_by_trend(const LearningCurve& curve, const LossTrend& trend) {
  return trend.worse >= 2 * kWorseInRow && !may_return(curve, trend) ? Confidence::kHigh
                                                                     : Confidence::kMedium;
}

double most_dropout(const DropoutOptions& d) {
  return std::max({d.embedding, d.attention, d.activation, d.residual});
}

// Dropout that is too high keeps training loss far above validation loss, which has none.
void look_for_underfitting(const CurveShape& shape, Overfitting& o) {
  const bool held_back = shape.valid > 0 && o.trend.train_now > kHeldBack * o.trend.last;
  if (held_back && o.dropout_rate >= kMuchDropout) {
    o.less_dropout = std::round(50 * o.dropout_rate) / 100;
  }
}

// The figures of a small validation set may be chance.
Confidence capped(Confidence confidence, const LearningContext& context) {
  const uint64_t pairs = context.data.validation_pairs;
  const bool few = pairs > 0 && pairs < kFewValidationPairs;
  if (context.data.leaked_share() >= kLeaked) return std::min(confidence, Confidence::kLow);
  return few && confidence == Confidence::kHigh ? Confidence::kMedium : confidence;
}

// A rise of training loss that lasts, and that validation loss confirms where it was measured
// since.
const LossRise* lasting_rise(const Trained& t) {
  if (t.rises.empty() || !t.rises.back().lasts()) return nullptr;
  const LossRise& rise = t.rises.back();
  const bool measured = !t.losses.empty() && t.losses.back().first > rise.step;
  const bool confirmed = !measured || t.trend.last > kDivergedRise * t.trend.best;
  return rise.after > kDivergedRise * rise.before && confirmed ? &rise : nullptr;
}

bool trains_in_fp16(const RunSummary& run) { return run.steps.total("loss_scale") > 0; }

// Many models stand at the frequencies of pieces for a while and leave them later; where gradients
// are clipped all the time, the learning rate is the likely reason.
Confidence useless_confidence(const LossLevel& level) {
  if (level.fault == LossLevel::Fault::kWorseThanGuessing) return Confidence::kHigh;
  if (level.fault == LossLevel::Fault::kUnlikeValidation) return Confidence::kMedium;
  if (level.rate_too_low()) return Confidence::kMedium;
  return level.clipped() ? Confidence::kMedium : Confidence::kLow;
}

bool diverged(const RunSummary& run) { return run.ended && run.ends.back().reason == "diverged"; }

}  // namespace

const char* id_of(Overfitting::Answer answer) {
  switch (answer) {
    case Overfitting::Answer::kNo:
      return "no";
    case Overfitting::Answer::kNear:
      return "near";
    case Overfitting::Answer::kYes:
      return "yes";
    case Overfitting::Answer::kUnknown:
      break;
  }
  return "unknown";
}

const char* id_of(Trained::Answer answer) {
  switch (answer) {
    case Trained::Answer::kYes:
      return "yes";
    case Trained::Answer::kPastItsBest:
      return "past-its-best";
    case Trained::Answer::kNearBest:
      return "near-its-best";
    case Trained::Answer::kScheduleOver:
      return "schedule-over";
    case Trained::Answer::kImproving:
      return "improving";
    case Trained::Answer::kGettingWorse:
      return "getting-worse";
    case Trained::Answer::kUseless:
      return "useless";
    case Trained::Answer::kDiverged:
      return "diverged";
    case Trained::Answer::kUnknown:
      break;
  }
  return "unknown";
}

namespace {

void judge_overfitting(const RunSummary& run, const LearningContext& context, Overfitting& o) {
  const LossTrend& trend = o.trend;
  const LearningCurve curve = learning_curve(run, context);
  o.turned = trend.worse >= kWorseInRow && trend.train_now < trend.train_at_best;
  // Text of the first epoch is new to the model: the model has memorised none of it.
  const bool seen_before = o.epochs > 1 || o.epochs == 0 || context.data.repeats;
  if (o.turned && seen_before) {
    o.answer = Overfitting::Answer::kYes;
    o.confidence = confidence_by_trend(curve, trend);
    return;
  }
  const auto shape = shape_of(curve);
  const bool learning = shape && learns(*shape);
  if (learning) o.speed = shape->short_slope / shape->short_train;
  if (learning && o.speed < kNearTurn && (o.epochs > 1 || context.data.repeats)) {
    o.answer = Overfitting::Answer::kNear;
    o.confidence = o.speed < 0 ? Confidence::kMedium : Confidence::kLow;
    return;
  }
  o.answer = Overfitting::Answer::kNo;
  if (shape) look_for_underfitting(*shape, o);
  const bool apart = o.turned || (learning && o.speed < 2 * kNearTurn);
  o.confidence = trend.later == 0 && !apart ? Confidence::kHigh
                 : trend.later >= 3         ? Confidence::kLow
                                            : Confidence::kMedium;
}

void judge_trained(const RunSummary& run, const LearningContext& context, Trained& t) {
  const std::optional<LossTrend> trend = loss_trend(run);
  if (trend) t.trend = *trend;
  if (const LossRise* rise = lasting_rise(t)) {
    t.answer = Trained::Answer::kDiverged;
    t.confidence = Confidence::kMedium;
    t.step = static_cast<uint64_t>(rise->step);
    return;
  }
  if (t.losses.empty() || !trend) {  // says nothing, wherever the learning rate is
    judge_few(run, t);
    return;
  }
  t.level = loss_level(run, context);
  const RateDecay decay = rate_decay(run, context.options);
  t.phase = decay.phase;
  const LearningCurve curve = learning_curve(run, context);
  note_rates(curve, t);
  t.warmup_end = warmup_end(curve, context, t);
  const Overfitting overfits = overfitting(run, context);
  const bool unlike = t.level.fault == LossLevel::Fault::kUnlikeValidation;
  const bool guesses = t.level.fault == LossLevel::Fault::kWorseThanGuessing;
  if (overfits.turned && !unlike && !guesses) {
    t.answer = Trained::Answer::kPastItsBest;
    t.confidence = confidence_by_trend(curve, *trend);
  } else if (t.level.useless() && !stopped_by_schedule(curve, t)) {
    t.answer = Trained::Answer::kUseless;
    t.confidence = useless_confidence(t.level);
    if (t.level.fault != LossLevel::Fault::kWorseThanGuessing) predict(run, decay, curve, t);
  } else if (t.losses.size() >= kFewestForTrend && trend->worse >= kWorseInRow) {
    t.answer = Trained::Answer::kGettingWorse;
    t.confidence = confidence_by_trend(curve, *trend);
  } else {
    judge_by_schedule(run, decay, curve, t);
    look_for_unused_sources(run, t);
  }
}

}  // namespace

Overfitting overfitting(const RunSummary& run, const LearningContext& context) {
  Overfitting o;
  o.run = context.run;
  o.evaluations = validation_losses(run).size();
  o.epochs = run.steps.total("epoch");
  if (context.options) {
    o.dropout_rate = most_dropout(context.options->dropout);
    o.dropout = o.dropout_rate > 0;
  }
  const std::optional<LossTrend> trend = loss_trend(run);
  if (!trend || o.evaluations < kFewestForTrend) return o;
  o.trend = *trend;
  if (context.data.leaked_share() >= kLeaked) {
    o.leaked = context.data.leaked;
    return o;
  }
  judge_overfitting(run, context, o);
  o.confidence = capped(o.confidence, context);
  return o;
}

Trained trained(const RunSummary& run, const LearningContext& context) {
  Trained t;
  t.run = context.run;
  if (context.options) t.schedule = context.options->schedule;
  t.losses = validation_losses(run);
  t.plan = plan_of(run, context);
  t.rises = loss_rises(run);
  t.skipped_steps = static_cast<uint64_t>(run.steps.total("skipped"));
  t.skipped_share = run.steps.total("skipped") / std::max(1.0, run.steps.total("steps"));
  t.fp16 = trains_in_fp16(run);
  if (diverged(run)) {
    t.answer = Trained::Answer::kDiverged;
    t.confidence = Confidence::kHigh;
    t.step = run.ends.back().step;
    t.stopped = true;
    if (const std::optional<LossTrend> trend = loss_trend(run)) t.trend = *trend;
    return t;
  }
  judge_trained(run, context, t);
  t.confidence = capped(t.confidence, context);
  return t;
}

}  // namespace reigen
