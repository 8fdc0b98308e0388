// Answers about learning: trained, overfitting, learning rate, training set.
#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "config/schedule_options.h"
#include "data/manifest.h"
#include "optim/schedule.h"
#include "report/report_maker.h"

namespace reigen {
namespace {

// The last half of the run and as many further steps as the run had: early losses would dwarf both.
Plot expectation_plot(const Points& valid, const std::vector<ExpectedGain>& gains) {
  const auto [last, loss] = valid.back();
  PlotSeries measured = {"measured", {}, true};
  for (const auto& point : valid) {
    if (point.first >= last / 2) measured.points.push_back(point);
  }
  PlotSeries expected = {"expected", {{last, loss}}, true, true};
  PlotSeries least = {"80% interval, smallest gain", {{last, loss}}, true, true};
  PlotSeries most = {"80% interval, largest gain", {{last, loss}}, true, true};
  for (const ExpectedGain& gain : gains) {
    const double step = last * (1 + gain.more);
    expected.points.emplace_back(step, loss - gain.gain);
    least.points.emplace_back(step, loss - gain.low);
    most.points.emplace_back(step, loss - gain.high);
  }
  return {.title = "Expected loss after more steps",
          .y = "validation loss",
          .series = {measured, expected, least, most}};
}

// The same for the same pairs in the same pieces.
std::string identity_of(const std::vector<CorpusFacts>& corpora) {
  std::string checksums;
  for (const CorpusFacts& corpus : corpora) {
    for (const ShardInfo& shard : corpus.shards) checksums += shard.sha256;
    checksums += format(" weight {} ", corpus.weight);
  }
  return format("{:08x}", xxh3(checksums.data(), checksums.size()) >> 32);
}

Json gain_json(const ExpectedGain& gain) {
  return {{"more", gain.more}, {"gain", gain.gain}, {"low", gain.low}, {"high", gain.high}};
}

}  // namespace

// Of a model of several target languages: the last scores of each direction, and their course.
void ReportMaker::add_directions(Answer& answer) {
  if (run_.evaluations.empty() || run_.evaluations.back().directions.empty()) return;
  const EvaluationRecord& last = run_.evaluations.back();
  for (const DirectionScores& direction : last.directions) {
    std::string scores = format("loss {:.4f}", direction.nll);
    Json numbers = {{"name", direction.name}, {"nll", direction.nll}};
    if (direction.bleu) {
      scores += format(", BLEU {:.2f}", *direction.bleu);
      numbers["bleu"] = *direction.bleu;
    }
    if (direction.chrf) {
      scores += format(", chrF {:.2f}", *direction.chrf);
      numbers["chrf"] = *direction.chrf;
    }
    answer.figures.emplace_back(format("{} at step {}", direction.name, with_commas(last.step)),
                                scores);
    report_.numbers["directions"].push_back(std::move(numbers));
  }
  const DirectionCurves curves = direction_curves(run_);
  answer.plots.push_back({.title = "Validation loss by direction",
                          .y = "per target token",
                          .series = dots_of(curves.losses)});
  answer.plots.push_back({.title = "BLEU by direction", .series = dots_of(curves.bleu)});
}

void ReportMaker::is_trained() {
  Answer& a = add("trained", "Is the model fully trained, and how can you tell?");
  a.answer = text_of(report_.trained).verdict;
  const Points valid = validation_losses(run_);
  a.plots.push_back(
      {.title = "Validation loss", .y = "per target token", .series = {{"measured", valid, true}}});
  const Trained& t = report_.trained;
  if (!t.gains.empty()) a.plots.push_back(expectation_plot(valid, t.gains));
  if (t.plan.last > 0) {
    a.figures.emplace_back("of the planned steps",
                           format("{} of {} ({:.0f}%)", whole(t.plan.step), whole(t.plan.last),
                                  100 * t.plan.step / t.plan.last));
  }
  for (const ExpectedGain& gain : t.gains) {
    a.figures.emplace_back(format("expected from {:.0f}% more steps", 100 * gain.more),
                           text_of(gain));
    report_.numbers["expected_gains"].push_back(gain_json(gain));
  }
  for (const ExpectedGain& gain : t.bleu_gains) {
    a.figures.emplace_back(format("BLEU expected from {:.0f}% more steps", 100 * gain.more),
                           text_of_bleu(gain));
    report_.numbers["expected_bleu_gains"].push_back(gain_json(gain));
  }
  if (t.of_decay) {
    a.figures.emplace_back(
        format("expected from a decay over {:.0f} steps that begins now", t.decay_steps),
        text_of(*t.of_decay));
    report_.numbers["expected_of_decay"] = gain_json(*t.of_decay);
  }
  if (t.to_end) report_.numbers["expected_to_end"] = gain_json(*t.to_end);
  if (t.of_longer) report_.numbers["expected_of_longer"] = gain_json(*t.of_longer);
  if (t.level.guessing > 0) {
    a.figures.emplace_back("loss of guessing among all pieces", format("{:.3f}", t.level.guessing));
  }
  if (t.level.frequencies > 0) {
    a.figures.emplace_back("loss of knowing only how often each piece occurs",
                           format("{:.3f}", t.level.frequencies));
  }
  if (!valid.empty()) a.figures.emplace_back("last loss", format("{:.4f}", valid.back().second));
  Plot bleu = {.title = "BLEU of decoded text"};
  PlotSeries scores = {"BLEU", {}, true};
  for (const auto& e : run_.evaluations) {
    if (e.bleu) scores.points.emplace_back(static_cast<double>(e.step), *e.bleu);
  }
  if (!scores.points.empty()) {
    const auto best =
        std::max_element(scores.points.begin(), scores.points.end(),
                         [](const auto& x, const auto& y) { return x.second < y.second; });
    a.figures.emplace_back("best BLEU",
                           format("{:.2f} at step {}", best->second, whole(best->first)));
  }
  bleu.series.push_back(std::move(scores));
  a.plots.push_back(std::move(bleu));
  add_directions(a);
  for (const auto& [name, points] : metric_points(run_)) {
    const auto best =
        std::max_element(points.begin(), points.end(),
                         [](const auto& x, const auto& y) { return x.second < y.second; });
    a.figures.emplace_back("best " + name,
                           format("{:.4f} at step {}", best->second, whole(best->first)));
    a.plots.push_back({.title = name, .y = "by eval.command", .series = {{name, points, true}}});
  }
}

void ReportMaker::is_overfitting() {
  Answer& a = add("overfitting", "Was it overfitting?");
  a.answer = text_of(report_.overfitting).verdict;
  const Points valid = validation_losses(run_);
  if (const std::optional<LossTrend> trend = loss_trend(run_)) {
    a.figures = {
        {"best validation loss", format("{:.4f} at step {}", trend->best, whole(trend->best_step))},
        {"last validation loss", format("{:.4f}", trend->last)},
        {"training loss since the previous evaluation",
         format("{:.4f}{}", trend->train_now, report_.overfitting.dropout ? ", with dropout" : "")},
        {"gap", format("{:+.4f}", trend->gap())}};
    report_.numbers["overfitting"] = {{"gap", trend->gap()},
                                      {"best_step", trend->best_step},
                                      {"best_loss", trend->best},
                                      {"last_loss", trend->last}};
    if (valid.size() >= 2) {
      const auto& before = valid[valid.size() - 2];
      a.figures.emplace_back(
          "trend of validation loss",
          format("{:+.4f} since the previous evaluation", valid.back().second - before.second));
    }
  }
  a.plots.push_back({.title = "Training and validation loss",
                     .y = report_.overfitting.dropout ? "per target token, training with dropout"
                                                      : "per target token",
                     .series = {{"training", training_losses(run_)},
                                {"validation", validation_losses(run_), true}}});
}

namespace {

// The evaluation of the checkpoint that translation uses: the best by BLEU, else by loss.
const EvaluationRecord& best_evaluation(const std::vector<EvaluationRecord>& all) {
  return *std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (a.bleu && b.bleu) return *a.bleu < *b.bleu;
    return b.bleu.has_value() || (!a.bleu && a.nll > b.nll);
  });
}

// "21.30, was 25.10: -3.80"
std::string compared(double now, double before) {
  return format("{:.2f}, was {:.2f}: {:+.2f}", now, before, now - before);
}

}  // namespace

// The gain of a fine-tuned run on its own validation set, and its loss on that of eval.old-data.
void ReportMaker::fine_tuning() {
  if (!run_.starting_point) return;
  const StartingPointRecord& start = *run_.starting_point;
  Figures& figures = report_.fine_tuning;
  figures.emplace_back("starting point",
                       format("{} (step {})", start.path, with_commas(start.checkpoint_step)));
  if (run_.evaluations.empty() || !start.nll) return;
  const EvaluationRecord& now = best_evaluation(run_.evaluations);
  Json& numbers = report_.numbers["fine_tuning"];
  numbers["step"] = now.step;
  figures.emplace_back("compared at", format("step {}, the best by {}", with_commas(now.step),
                                             now.bleu ? "BLEU" : "loss"));
  auto row = [&](const char* label, const char* key, const std::optional<double>& value,
                 const std::optional<double>& before) {
    if (!value || !before) return;
    figures.emplace_back(label, compared(*value, *before));
    numbers[key] = {{"now", *value}, {"start", *before}};
  };
  row("BLEU on the validation set", "bleu", now.bleu, start.bleu);
  row("chrF on the validation set", "chrf", now.chrf, start.chrf);
  row("loss on the validation set", "nll", now.nll, start.nll);
  row("BLEU on old data", "old_bleu", now.old_bleu, start.old_bleu);
  row("chrF on old data", "old_chrf", now.old_chrf, start.old_chrf);
  row("loss on old data", "old_nll", now.old_nll, start.old_nll);
}

std::string ReportMaker::schedule_text(const Points& rates) const {
  const std::string kind = options_ ? schedule_name(options_->schedule.kind) : "?";
  const double warmup = options_ ? static_cast<double>(options_->schedule.warmup_steps) : 0;
  const auto last = static_cast<double>(run_.last_step ? run_.last_step->step : 0);
  const double rate = rates.back().second;
  if (last < warmup) {
    return format("schedule.kind {}: the run {} within its warm-up, at step {} of {}, at {:.2e}",
                  kind, report_.live() ? "is still" : "ended", whole(last), whole(warmup), rate);
  }
  if (kind == "fixed") {
    return format("schedule.kind fixed: the rate stayed at {:.2e}{}", rate,
                  warmup > 1 ? format(" after a warm-up of {}",
                                      counted(static_cast<uint64_t>(warmup), "step"))
                             : "");
  }
  const auto peak = std::max_element(rates.begin(), rates.end(),
                                     [](auto& x, auto& y) { return x.second < y.second; });
  const char* rise = warmup > 1 ? "the rate rose to" : "the peak rate was";
  return format("schedule.kind {}: {} {:.2e} around step {} and was {:.2e} at the end", kind, rise,
                peak->second, whole(peak->first), rate);
}

void ReportMaker::learning_rate() {
  Answer& a =
      add("learning-rate", "What does the learning-rate plot show, and which setting produced it?");
  const auto points = run_.steps.ratio("rate", "steps");
  if (points.empty()) {
    a.answer = kNoStep;
    return;
  }
  a.answer = schedule_text(points);
  if (options_) {
    ScheduleOptions schedule = options_->schedule;
    schedule.last_step = last_step_of(run_, *options_);
    const Json settings = schedule_json(with_planned_decay(schedule));
    for (const auto& [key, value] : settings.items()) {
      a.figures.emplace_back("schedule." + key,
                             value.is_string() ? value.get<std::string>() : one_line(value));
    }
    if (const Decay decay = planned_decay(schedule); decay.active()) {
      a.figures.emplace_back(
          format("planned decay after step {}", with_commas(decay.begin)),
          format("{}, up to step {}", counted(decay.steps, "step"), with_commas(decay.end())));
    }
  }
  for (const DecayRecord& decay : run_.decays) {
    if (decay.steps == 0) {
      a.figures.emplace_back(format("decay cancelled after step {}", with_commas(decay.step)),
                             "a new --max-steps");
      continue;
    }
    a.figures.emplace_back(
        format("decay after step {}", with_commas(decay.step)),
        format("{}, {}", counted(decay.steps, "step"),
               decay.cause == "stalled" ? "the validation score had stalled" : "--decay-now"));
  }
  a.plots.push_back({.title = "Learning rate", .series = {{"rate", points}}, .from_zero = true});
}

void ReportMaker::training_set() {
  Answer& a = add("training-set", "How big was the training set, how many lines?");
  // The run's own copy is preferred: the dataset may have moved or changed.
  const std::string copy = directory_ + "/measurements";
  try {
    const bool has_copy = path_exists(copy + "/manifest.json");
    const Manifest manifest = read_manifest(has_copy ? copy : options_ ? options_->data : "?");
    uint64_t bytes = 0;
    uint64_t pieces = 0;
    uint64_t read = 0;
    for (const CorpusFacts& c : manifest.train) {
      bytes += c.source.bytes + c.target.bytes;
      pieces += c.source.pieces + c.target.pieces;
      read += c.lines_read;
      a.figures.emplace_back(c.name, format("{} used of {}", with_commas(c.lines_kept),
                                            counted(c.lines_read, "line")));
    }
    a.answer = format("{}, {} of text, {}", counted(manifest.train_pairs(), "sentence pair"),
                      human_bytes(bytes), counted(pieces, "piece"));
    a.figures.emplace_back("vocabulary", counted(manifest.vocab.size, "piece"));
    a.figures.emplace_back("epochs trained", format("{:.2f}", run_.steps.total("epoch")));
    report_.numbers["training_pairs"] = manifest.train_pairs();
    report_.numbers["training_bytes"] = bytes;
    report_.numbers["lines_read"] = read;
    report_.numbers["dataset"] = {{"training pairs", manifest.train_pairs()},
                                  {"training set", identity_of(manifest.train)},
                                  {"validation set", identity_of(manifest.valid)},
                                  {"vocabulary", manifest.vocab.file.sha256.substr(0, 8)}};
  } catch (const Error& e) {
    a.answer = format("cannot tell, because {}", e.what());
  }
  a.plots.push_back({.title = "Epochs",
                     .y = "passes over the training set",
                     .series = {{"epochs", run_.steps.values("epoch")}},
                     .from_zero = true});
}

}  // namespace reigen
