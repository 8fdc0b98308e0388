// The losses of a run as verdicts need them, compared with its schedule, its plan and its
// vocabulary.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "config/metric_name.h"
#include "optim/schedule.h"
#include "report/verdict/learning/learning.h"

namespace reigen {
namespace {

constexpr double kMostLoggedSteps = 1e15;  // a log may come from elsewhere

// Mean of all steps after `from` up to `to`, because a single batch says little. A row of a long
// run may have more steps than lie between two evaluations; then the row with `to` counts.
double training_loss(const RunSummary& run, double from, double to) {
  const RollupTable& t = run.steps;
  const auto width = static_cast<double>(t.width());
  const size_t finite = t.column("finite");
  const size_t nll = t.column("nll");
  double sum = 0;
  double count = 0;
  double nearest = NAN;
  for (const auto& [number, row] : t.rows()) {
    const double begin = static_cast<double>(number) * width;
    if (begin > to) break;
    if (row[finite] == 0) continue;
    nearest = row[nll] / row[finite];
    const double middle = begin + (width - 1) / 2;
    if (middle <= from || middle > to) continue;
    sum += row[nll];
    count += row[finite];
  }
  return count > 0 ? sum / count : nearest;
}

// Of the steps since the previous evaluation. Before the first one the loss falls steeply: only the
// last tenth of its steps counts.
double training_loss_at(const RunSummary& run, const Points& valid, size_t evaluation) {
  const double from = evaluation == 0 ? 0.9 * valid[evaluation].first : valid[evaluation - 1].first;
  return training_loss(run, from, valid[evaluation].first);
}

double newest_step(const RunSummary& run) {
  double step = run.evaluations.empty() ? 0 : static_cast<double>(run.evaluations.back().step);
  if (run.last_step) step = std::max(step, static_cast<double>(run.last_step->step));
  return step;
}

Decay begun_decay(const RunSummary& run) {
  return run.decays.empty() ? Decay() : Decay{run.decays.back().step, run.decays.back().steps};
}

// Nothing where the run's record of its options makes no curve.
std::optional<ScheduleOptions> schedule_of(const RunSummary& run, const LearningContext& context) {
  if (!context.options) return std::nullopt;
  ScheduleOptions schedule =
      resolve_schedule(context.options->schedule, context.options->model.width);
  schedule.last_step = last_step_of(run, *context.options);
  try {
    check_schedule(schedule);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return schedule;
}

// Quotient of two columns over the last tenth of the steps.
double late_mean(const RunSummary& run, const char* value, const char* count) {
  const Points all = run.steps.ratio(value, count);
  const double from = 0.9 * newest_step(run);
  double sum = 0;
  double found = 0;
  for (const auto& [step, mean] : all) {
    if (step < from || !std::isfinite(mean)) continue;
    sum += mean;
    found += 1;
  }
  return found > 0 ? sum / found : 0;
}

// In the first epoch the text of every batch is new to the model, as validation text is: a lower
// training loss then shows that the two are of different kinds.
void compare_kinds(const RunSummary& run, const Points& valid, LossLevel& level) {
  const Points epochs = run.steps.values("epoch");
  for (size_t i = 2; i < valid.size(); ++i) {
    const auto at = std::find_if(epochs.begin(), epochs.end(),
                                 [&](const auto& point) { return point.first >= valid[i].first; });
    if (at == epochs.end() || at->second > 1 || at->second <= 0) break;
    const double train = training_loss_at(run, valid, i);
    level.unlike = train < (1 - kUnlikeGap) * valid[i].second;
    level.unlike_valid = valid[i].second;
    level.unlike_train = train;
  }
}

// The best losses of both halves are compared: a single evaluation may be a jump.
bool stands(const Points& valid) {
  if (valid.size() < kFewestForTrend) return false;
  const double half = valid.back().first / 2;
  double before = INFINITY;
  double after = INFINITY;
  for (const auto& [step, loss] : valid) {
    double& best = step <= half ? before : after;
    best = std::min(best, loss);
  }
  return after > (1 - kStandingFall) * before;
}

}  // namespace

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

DirectionCurves direction_curves(const RunSummary& run) {
  DirectionCurves curves;
  for (const EvaluationRecord& e : run.evaluations) {
    const auto step = static_cast<double>(e.step);
    for (const DirectionScores& direction : e.directions) {
      const bool shown =
          curves.losses.size() < kMostDirections || curves.losses.contains(direction.name);
      if (!shown) continue;
      Points& losses = curves.losses[direction.name];
      if (std::isfinite(direction.nll)) losses.emplace_back(step, direction.nll);
      if (direction.bleu) curves.bleu[direction.name].emplace_back(step, *direction.bleu);
    }
  }
  return curves;
}

Points validation_losses(const RunSummary& run) {
  Points points;
  for (const EvaluationRecord& e : run.evaluations) {
    if (std::isfinite(e.nll)) points.emplace_back(static_cast<double>(e.step), e.nll);
  }
  return points;
}

Points training_losses(const RunSummary& run) { return run.steps.ratio("nll", "finite"); }

LearningContext learning_context(const std::string& run, std::optional<TrainOptions> options) {
  return {.run = run, .options = std::move(options), .data = data_facts(run)};
}

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

LearningCurve learning_curve(const RunSummary& run, const LearningContext& context) {
  LearningCurve curve;
  const Points valid = validation_losses(run);
  const Points epochs = run.steps.values("epoch");
  size_t row = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    const double step = valid[i].first;
    if (step < 1) continue;
    while (row + 1 < epochs.size() && epochs[row].first < step) ++row;
    curve.points.push_back({.step = step,
                            .valid = valid[i].second,
                            .train = training_loss_at(run, valid, i),
                            .epochs = epochs.empty() ? 0 : epochs[row].second});
  }
  const std::optional<ScheduleOptions> schedule = schedule_of(run, context);
  if (!schedule) {
    const double rate = run.last_step && run.last_step->rate > 0 ? run.last_step->rate : 1;
    curve.rate = [rate](double) { return rate; };
    return curve;
  }
  curve.rate = [schedule = *schedule, decay = begun_decay(run)](double step) {
    const double whole_step = std::clamp(std::round(step), 1.0, kMostLoggedSteps);
    return learning_rate(schedule, static_cast<uint64_t>(whole_step), decay);
  };
  return curve;
}

RateDecay rate_decay(const RunSummary& run, const std::optional<TrainOptions>& options) {
  Decay decay = begun_decay(run);
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
  const double step = newest_step(run);
  const bool ended = decay.active() && step >= static_cast<double>(decay.end());
  const bool begun = decay.active() && step > static_cast<double>(decay.begin);
  found.phase = ended   ? RateDecay::Phase::kAfter
                : begun ? RateDecay::Phase::kWithin
                        : RateDecay::Phase::kBefore;
  return found;
}

int64_t last_step_of(const RunSummary& run, const TrainOptions& options) {
  const bool recorded = !run.starts.empty() && run.starts.back().last_step > 0;
  return recorded ? static_cast<int64_t>(run.starts.back().last_step) : options.max_steps;
}

double Plan::share() const {
  if (last > 0) return step / last;
  return last_epoch > 0 ? epochs / last_epoch : 0;
}

Plan plan_of(const RunSummary& run, const LearningContext& context) {
  Plan plan = {.step = newest_step(run), .epochs = run.steps.total("epoch")};
  if (!run.starts.empty()) plan.last = static_cast<double>(run.starts.back().last_step);
  if (context.options) {
    if (plan.last == 0) plan.last = static_cast<double>(context.options->max_steps);
    plan.last_epoch = context.options->max_epochs;
  }
  const Decay decay = begun_decay(run);
  if (decay.active()) plan.last = static_cast<double>(decay.end());
  return plan;
}

LossLevel loss_level(const RunSummary& run, const LearningContext& context) {
  LossLevel level;
  const std::optional<LossTrend> trend = loss_trend(run);
  if (!trend) return level;
  const Points valid = validation_losses(run);
  level.valid = trend->best;
  level.train = trend->train_at_best;
  level.norm = late_mean(run, "norm", "finite");
  level.rate = late_mean(run, "rate", "steps");
  if (context.options) {
    const OptimizerOptions& optimizer = context.options->optimizer;
    level.clip = optimizer.clip;
    const bool decays = optimizer.kind != OptimizerKind::kAdam;
    level.weight_decay = decays ? optimizer.weight_decay : 0;
  }
  if (!run.starts.empty()) {
    const StartRecord& start = run.starts.back();
    if (start.vocabulary > 1) level.guessing = std::log(static_cast<double>(start.vocabulary));
    level.frequencies = start.piece_entropy;
  }
  for (const EvaluationRecord& e : run.evaluations) {
    level.bleu = std::max(level.bleu, e.bleu.value_or(0));
  }
  compare_kinds(run, valid, level);
  // Where pairs repeat within an epoch, a lower training loss may be memory.
  if (context.data.repeats) level.repeated = std::exchange(level.unlike, false);
  const bool measured = !run.evaluations.empty() && run.evaluations.back().bleu.has_value();
  const double warmup =
      context.options ? static_cast<double>(context.options->schedule.warmup_steps) : 0;
  const bool begun = valid.size() >= kFewestForTrend && newest_step(run) > 2 * warmup;
  level.travel = run.steps.total("rate");
  // Of a model that has learnt neither the frequencies of pieces nor, without those, anything.
  const double learnt = level.frequencies > 0 ? kFrequencyMost * level.frequencies : level.guessing;
  const bool nothing = begun && learnt > 0 && level.valid >= learnt;
  const bool learns = level.train < (1 - 2 * kUnlikeGap) * level.valid;  // training text
  if (nothing && level.rate_too_low() && !learns) {
    level.fault = LossLevel::Fault::kHardlyLearns;
  } else if (begun && level.guessing > 0 && level.valid >= level.guessing) {
    level.fault = LossLevel::Fault::kWorseThanGuessing;
  } else if (stands(valid) &&
             ((level.unlike && level.unlike_train < (1 - kFarGap) * level.unlike_valid) ||
              (nothing && learns))) {
    level.fault = LossLevel::Fault::kUnlikeValidation;
  } else if (begun && level.frequencies > 0 && stands(valid) &&
             level.valid >= kFrequencyShare * level.frequencies) {
    level.fault = nothing ? LossLevel::Fault::kHardlyLearns : LossLevel::Fault::kFrequenciesOnly;
  } else if (measured && level.valid < std::max(kGoodLoss, kGoodShare * level.frequencies) &&
             level.bleu < kUselessBleu) {
    level.fault = LossLevel::Fault::kUselessBleu;
  }
  return level;
}

const char* id_of(LossLevel::Fault fault) {
  switch (fault) {
    case LossLevel::Fault::kWorseThanGuessing:
      return "worse-than-guessing";
    case LossLevel::Fault::kFrequenciesOnly:
      return "frequencies-only";
    case LossLevel::Fault::kHardlyLearns:
      return "hardly-learns";
    case LossLevel::Fault::kUnlikeValidation:
      return "unlike-validation";
    case LossLevel::Fault::kUnusedSources:
      return "unused-sources";
    case LossLevel::Fault::kUselessBleu:
      return "useless-bleu";
    case LossLevel::Fault::kNone:
      break;
  }
  return "none";
}

}  // namespace reigen
