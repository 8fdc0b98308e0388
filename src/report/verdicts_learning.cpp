// Whether a model is trained and whether it overfits.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "report/verdicts.h"

namespace reigen {
namespace {

constexpr const char* kTrainOn = "train on with `reigen train --run RUN --max-steps N`";
constexpr double kWorse = 0.01;  // of the loss
constexpr double kTrainedGain = 0.005;
constexpr ptrdiff_t kLeastWorse = 2;  // evaluations
constexpr size_t kLeastTrend = 3;     // evaluations
// From one evaluation to the next, to be improving where no curve can be fitted. Twice kWorse: one
// fall alone has to say it.
constexpr double kFalling = 0.02;

// Of all steps after `from` up to `to`: a single batch says little. A row of a long run may hold
// more steps than lie between two evaluations; then it is the one with `to` in it.
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

Verdict diverged(Verdict v, const EndRecord& end, double skipped) {
  v.verdict = format("no: it diverged at step {}", with_commas(end.step));
  v.confidence = "high";
  v.because = format(
      "loss or gradient was not finite, and the run gave up; {:.0f} steps were skipped in all",
      skipped);
  v.advice = "lower the learning rate, lengthen its warm-up or set optimizer.clip";
  return v;
}

Verdict getting_worse(Verdict v, const LossTrend& trend) {
  v.verdict = format("no, it is getting worse since step {:.0f}", trend.best_step);
  v.confidence = trend.worse >= 2 * kLeastWorse ? "high" : "medium";
  v.because = format(
      "validation loss is {:.3f} and was {:.3f} at best; training loss did not fall since either: "
      "{:.3f} then, {:.3f} now",
      trend.last, trend.best, trend.train_at_best, trend.train_now);
  v.advice =
      "lower the learning rate, lengthen its warm-up or set optimizer.clip; the checkpoint "
      "best-loss is the one to go on from";
  return v;
}

// Too few evaluations for a curve, or a loss that falls faster than any curve that levels off above
// zero, as it does in the middle of learning. The last fall tells all the same whether it goes on.
Verdict without_curve(Verdict v, const Points& valid) {
  const bool few = valid.size() < kLeastEvaluations;
  const std::string why =
      few ? format("{} evaluations are too few to fit a curve; {} are needed", valid.size(),
                   kLeastEvaluations)
          : "the losses fall too steeply for a curve that levels off above zero";
  const auto best = std::min_element(
      valid.begin(), valid.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool falling = valid.size() > 1 && best + 1 == valid.end() &&
                       best->second < (1 - kFalling) * valid[valid.size() - 2].second;
  if (!falling) {
    v.verdict = "cannot tell";
    v.because = why;
    if (valid.size() > 1) {
      v.because +=
          format(", and the last loss is not the best by more than {:.0f}%", 100 * kFalling);
    }
    return v;
  }
  const auto& [before, loss] = valid[valid.size() - 2];
  v.verdict = "no, still improving";
  v.confidence = few ? "low" : "medium";
  v.because = format(
      "from step {:.0f} to step {:.0f}, the last two evaluations, validation loss fell from {:.3f} "
      "to {:.3f}, by {:.0f}%; what more steps would gain cannot be told: {}",
      before, best->first, loss, best->second, 100 * (1 - best->second / loss), why);
  v.advice = kTrainOn;
  return v;
}

}  // namespace

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
  // A single good evaluation soon after the best does not undo what came since.
  trend.worse =
      std::find_if(valid.rbegin(), valid.rend(),
                   [&](const auto& point) { return point.second <= best->second * (1 + kWorse); }) -
      valid.rbegin();
  trend.train_at_best = training_loss_at(run, valid, static_cast<size_t>(best - valid.begin()));
  trend.train_now = training_loss_at(run, valid, valid.size() - 1);
  return trend;
}

Verdict overfitting(const RunSummary& run) {
  Verdict v;
  v.about = "overfitting";
  v.rule = format(
      "yes when validation loss was above its best by more than {:.0f}% in the last two "
      "evaluations or more, while training loss went on falling since that best; training loss is "
      "the mean of the steps since the evaluation before",
      100 * kWorse);
  const std::optional<LossTrend> trend = loss_trend(run);
  if (!trend || validation_losses(run).size() < kLeastTrend) {
    v.verdict = "cannot tell";
    v.because = format("{} evaluations are too few; {} are needed", validation_losses(run).size(),
                       kLeastTrend);
    return v;
  }
  v.because = format(
      "validation loss is {:.3f} and was {:.3f} at best, at step {:.0f}; training loss (with "
      "dropout) went from {:.3f} there to {:.3f}; the gap is {:+.3f}",
      trend->last, trend->best, trend->best_step, trend->train_at_best, trend->train_now,
      trend->gap());
  v.verdict = "no";
  v.confidence = trend->later == 0 ? "high" : trend->later >= 3 ? "low" : "medium";
  if (trend->worse >= kLeastWorse && trend->train_now < trend->train_at_best) {
    v.verdict = format("yes, since step {:.0f}", trend->best_step);
    v.confidence = trend->worse >= 2 * kLeastWorse ? "high" : "medium";
    v.advice =
        "the checkpoint best-loss is the one to use; more data, more dropout or a smaller "
        "model would help, more steps will not";
  }
  return v;
}

std::string text_of(const ExpectedGain& gain) {
  if (gain.gain < 0) {
    return format("{:.3f} more loss (80% interval {:.3f} to {:.3f} more)", -gain.gain, -gain.high,
                  -gain.low);
  }
  return format("{:.3f} less loss (80% interval {:.3f} to {:.3f})", gain.gain, gain.low, gain.high);
}

Verdict trained(const RunSummary& run) {
  Verdict v;
  v.about = "trained";
  v.rule = format(
      "a curve c + a * step^-b through the validation losses of the last half of the run; "
      "fully trained when another 50% of the steps is expected to gain less than {:.1f}% of the "
      "loss, or when the model overfits; getting worse when the last two evaluations or more are "
      "{:.0f}% above the best and training loss did not fall either. With fewer than {} "
      "evaluations, "
      "or a fall too steep for such a curve: still improving when the last loss is the best and "
      "more than {:.0f}% below the one before",
      100 * kTrainedGain, 100 * kWorse, kLeastEvaluations, 100 * kFalling);
  if (run.ended && run.ends.back().reason == "diverged") {
    return diverged(v, run.ends.back(), run.steps.total("skipped"));
  }
  const Points valid = validation_losses(run);
  const Verdict overfits = overfitting(run);
  if (overfits.verdict.starts_with("yes")) {
    v.verdict = "yes, and past its best";
    v.confidence = overfits.confidence;
    v.because = "it overfits: more steps make validation loss worse";
    return v;
  }
  const std::optional<LossTrend> trend = loss_trend(run);
  if (trend && valid.size() >= kLeastTrend && trend->worse >= kLeastWorse) {
    return getting_worse(v, *trend);
  }
  const auto curve = fit_loss_curve(valid);
  if (!curve) return without_curve(v, valid);
  for (const ExpectedGain& gain : curve->gains) {
    v.because += format("{}another {:.0f}% of the steps: {}", v.because.empty() ? "" : "; ",
                        100 * gain.more, text_of(gain));
  }
  v.because += "; as long as the learning rate goes on as its schedule says";
  const ExpectedGain& half = curve->gains[1];
  const double limit = kTrainedGain * valid.back().second;
  if (half.low < 0 && half.high > 2 * limit) {
    v.verdict = "cannot tell";
    v.because = format("the evaluations scatter too much to tell a gain of {:.3f} from none: {}",
                       limit, v.because);
    return v;
  }
  v.verdict = half.gain < limit ? "yes" : "no, still improving";
  const bool sure = half.gain < limit ? half.high < limit : half.low > limit;
  v.confidence = sure ? "high" : "medium";
  if (half.gain >= limit) v.advice = kTrainOn;
  return v;
}

}  // namespace reigen
