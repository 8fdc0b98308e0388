// Whether a model is trained and whether it overfits.
#include <algorithm>
#include <cmath>

#include "config/metric_name.h"
#include "optim/schedule.h"
#include "report/verdict/verdicts.h"

namespace reigen {
namespace {

// Mean of all steps after `from` up to `to`, because a single batch says little. A row of a long
// run may have more steps than lie between two evaluations; then the row with `to` counts.
double training_loss(const RunSummary& run, double from, double to) {
  const RollupTable& t = run.steps;
  const auto width = static_cast<double>(t.width());
  double sum = 0;
  double count = 0;
  double nearest = NAN;
  for (const auto& [number, row] : t.rows()) {
    const double finite = row[t.column("finite")];
    const double begin = static_cast<double>(number) * width;
    if (finite == 0 || begin > to) continue;
    nearest = row[t.column("nll")] / finite;
    const double middle = begin + (width - 1) / 2;
    if (middle <= from || middle > to) continue;
    sum += row[t.column("nll")];
    count += finite;
  }
  return count > 0 ? sum / count : nearest;
}

double training_loss_at(const RunSummary& run, const Points& valid, size_t evaluation) {
  const double from = evaluation == 0 ? 0 : valid[evaluation - 1].first;
  return training_loss(run, from, valid[evaluation].first);
}

// Without a curve, a last loss that is the best and clearly below the previous one still shows that
// the run improves.
bool still_falls(const Points& losses) {
  if (losses.size() < 2) return false;
  const auto best =
      std::min_element(losses.begin(), losses.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return best + 1 == losses.end() &&
         best->second < (1 - kClearFall) * losses[losses.size() - 2].second;
}

Trained::Evidence evidence_without_curve(const Trained& t) {
  return t.losses.size() < kFewestEvaluations ? Trained::Evidence::kTooFew
                                              : Trained::Evidence::kTooSteep;
}

void judge_without_curve(Trained& t) {
  t.evidence = evidence_without_curve(t);
  const bool few = t.evidence == Trained::Evidence::kTooFew;
  if (!still_falls(t.losses)) return;
  t.answer = Trained::Answer::kImproving;
  t.confidence = few ? Confidence::kLow : Confidence::kMedium;
}

void judge_by_curve(const LossCurve& curve, Trained& t) {
  t.gains = curve.gains;
  const ExpectedGain& half = curve.gains[1];  // of 50% more steps
  const double limit = kTrainedGain * t.losses.back().second;
  if (half.low < 0 && half.high > 2 * limit) {
    t.evidence = Trained::Evidence::kScatter;
    return;
  }
  const bool done = half.gain < limit;
  t.answer = done ? Trained::Answer::kYes : Trained::Answer::kImproving;
  const bool sure = done ? half.high < limit : half.low > limit;
  t.confidence = sure ? Confidence::kHigh : Confidence::kMedium;
}

}  // namespace

RateDecay rate_decay(const RunSummary& run, const std::optional<TrainOptions>& options) {
  Decay decay;
  if (!run.decays.empty()) decay = {run.decays.back().step, run.decays.back().steps};
  const bool wsd = options && options->schedule.kind == ScheduleKind::kWsd;
  RateDecay found;
  if (wsd) found.first = static_cast<double>(options->schedule.warmup_steps);
  if (!decay.active() && wsd) {
    ScheduleOptions schedule = options->schedule;
    schedule.last_step = last_step_of(run, *options);
    decay = planned_decay(schedule);
  }
  if (!decay.active() && !wsd) return found;
  found.begin = decay.active() ? static_cast<double>(decay.begin) : INFINITY;
  uint64_t step = run.evaluations.empty() ? 0 : run.evaluations.back().step;
  if (run.last_step) step = std::max(step, run.last_step->step);
  const bool ended = decay.active() && step >= decay.end();
  const bool begun = decay.active() && step > decay.begin;
  found.phase = ended   ? RateDecay::Phase::kAfter
                : begun ? RateDecay::Phase::kWithin
                        : RateDecay::Phase::kBefore;
  return found;
}

int64_t last_step_of(const RunSummary& run, const TrainOptions& options) {
  const bool recorded = !run.starts.empty() && run.starts.back().last_step > 0;
  return recorded ? static_cast<int64_t>(run.starts.back().last_step) : options.max_steps;
}

const char* id_of(Overfitting::Answer answer) {
  switch (answer) {
    case Overfitting::Answer::kNo:
      return "no";
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
    case Trained::Answer::kImproving:
      return "improving";
    case Trained::Answer::kGettingWorse:
      return "getting-worse";
    case Trained::Answer::kDiverged:
      return "diverged";
    case Trained::Answer::kUnknown:
      break;
  }
  return "unknown";
}

std::map<std::string, Points> metric_points(const RunSummary& run) {
  std::map<std::string, Points> points;
  for (const EvaluationRecord& e : run.evaluations) {
    for (const auto& [name, value] : e.metrics) {
      const bool shown =
          is_metric_name(name) && (points.size() < kMostMetrics || points.contains(name));
      if (!shown) continue;  // of a log from elsewhere
      points[name].emplace_back(static_cast<double>(e.step), value);
    }
  }
  return points;
}

Points validation_losses(const RunSummary& run) {
  Points points;
  for (const EvaluationRecord& e : run.evaluations) {
    if (std::isfinite(e.nll)) points.emplace_back(static_cast<double>(e.step), e.nll);
  }
  return points;
}

Points training_losses(const RunSummary& run) { return run.steps.ratio("nll", "finite"); }

std::optional<LossTrend> loss_trend(const RunSummary& run) {
  const Points valid = validation_losses(run);
  if (valid.empty() || training_losses(run).empty()) return std::nullopt;
  const auto best = std::min_element(
      valid.begin(), valid.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  LossTrend trend = {.best_step = best->first, .best = best->second, .last = valid.back().second};
  trend.later = valid.end() - best - 1;
  // Counted from the end: a single good evaluation soon after the best does not undo later ones.
  trend.worse = std::find_if(valid.rbegin(), valid.rend(),
                             [&](const auto& point) {
                               return point.second <= best->second * (1 + kWorseLoss);
                             }) -
                valid.rbegin();
  trend.train_at_best = training_loss_at(run, valid, static_cast<size_t>(best - valid.begin()));
  trend.train_now = training_loss_at(run, valid, valid.size() - 1);
  return trend;
}

Overfitting overfitting(const RunSummary& run) {
  Overfitting o;
  o.evaluations = validation_losses(run).size();
  const std::optional<LossTrend> trend = loss_trend(run);
  if (!trend || o.evaluations < kFewestForTrend) return o;
  o.trend = *trend;
  if (trend->worse >= kWorseInRow && trend->train_now < trend->train_at_best) {
    o.answer = Overfitting::Answer::kYes;
    o.confidence = trend->worse >= 2 * kWorseInRow ? Confidence::kHigh : Confidence::kMedium;
    return o;
  }
  o.answer = Overfitting::Answer::kNo;
  o.confidence = trend->later == 0   ? Confidence::kHigh
                 : trend->later >= 3 ? Confidence::kLow
                                     : Confidence::kMedium;
  return o;
}

Trained trained(const RunSummary& run, const RateDecay& decay) {
  Trained t;
  t.phase = decay.phase;
  t.losses = validation_losses(run);
  if (run.ended && run.ends.back().reason == "diverged") {
    t.answer = Trained::Answer::kDiverged;
    t.confidence = Confidence::kHigh;
    t.step = run.ends.back().step;
    t.skipped_steps = static_cast<uint64_t>(run.steps.total("skipped"));
    return t;
  }
  const Overfitting overfits = overfitting(run);
  if (overfits.answer == Overfitting::Answer::kYes) {
    t.answer = Trained::Answer::kPastItsBest;
    t.confidence = overfits.confidence;
    return t;
  }
  const std::optional<LossTrend> trend = loss_trend(run);
  if (trend && t.losses.size() >= kFewestForTrend && trend->worse >= kWorseInRow) {
    t.answer = Trained::Answer::kGettingWorse;
    t.confidence = trend->worse >= 2 * kWorseInRow ? Confidence::kHigh : Confidence::kMedium;
    t.trend = *trend;
    return t;
  }
  if (t.losses.empty()) {  // says nothing, wherever the learning rate is
    t.phase = RateDecay::Phase::kNone;
    t.evidence = Trained::Evidence::kTooFew;
    return t;
  }
  if (decay.phase == RateDecay::Phase::kBefore || decay.phase == RateDecay::Phase::kWithin) {
    t.evidence = Trained::Evidence::kDecay;
    t.answer = Trained::Answer::kImproving;
    t.confidence = Confidence::kMedium;
    return t;
  }
  if (decay.phase == RateDecay::Phase::kAfter) {
    std::erase_if(t.losses, [&](const auto& point) {
      return point.first < decay.first || point.first > decay.begin;
    });
  }
  const auto curve = fit_loss_curve(t.losses);
  if (curve) {
    judge_by_curve(*curve, t);
  } else if (decay.phase == RateDecay::Phase::kAfter) {
    t.evidence = evidence_without_curve(t);
  } else {
    judge_without_curve(t);
  }
  return t;
}

}  // namespace reigen
