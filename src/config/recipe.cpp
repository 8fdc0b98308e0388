#include "config/recipe.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "config/recipe_table.h"

namespace reigen {
namespace {

// Assigns options that are not given, and lists them for the log.
class Chooser {
 public:
  explicit Chooser(const GivenKeys& given) : given_(given) {}

  bool is_free(const std::string& key) const { return given_ && !given_->contains(key); }

  template <class T>
  bool choose(const std::string& key, T& option, const T& value, const std::string& text) {
    if (!is_free(key)) return false;
    option = value;
    list(format("{} {}", key, text));
    return true;
  }
  template <class T>
  bool choose(const std::string& key, T& option, T value) {
    return choose(key, option, value, format("{}", value));
  }
  void list(const std::string& item) { text_ += (text_.empty() ? "" : ", ") + item; }

  const std::string& text() const { return text_; }

 private:
  const GivenKeys& given_;
  std::string text_;
};

const RecipeRow& row_for(double pairs, std::optional<double> epochs) {
  const RecipeRow* row = kRecipeRows;
  while (pairs > static_cast<double>(row->most_pairs)) ++row;
  const double length = epochs.value_or(row->epochs);
  while (length > row->most_epochs) ++row;
  return *row;
}

double steps_in_epoch(const BatchOptions& batch, const CorpusSize& corpus) {
  if (batch.pairs > 0) return corpus.pairs / static_cast<double>(batch.pairs);
  return corpus.target_tokens / static_cast<double>(batch.target_tokens);
}

// The length of the run by its limits; nothing where time or the validation score decide.
std::optional<double> planned_steps(const TrainOptions& o, double in_epoch) {
  if (o.max_steps == 0 && o.max_epochs == 0) return std::nullopt;
  const double by_steps = o.max_steps > 0 ? static_cast<double>(o.max_steps) : INFINITY;
  const double by_epochs = o.max_epochs > 0 ? o.max_epochs * in_epoch : INFINITY;
  return std::min(by_steps, by_epochs);
}

// Two digits, because the length of a run is not known better.
int64_t round_steps(double steps) {
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(steps)) - 1));
  const double rounded = std::max(1.0, unit * std::round(steps / unit));
  return static_cast<int64_t>(std::min(rounded, static_cast<double>(kMaxSteps)));
}

void choose_batch(Chooser& chooser, TrainOptions& o, const RecipeRow& row,
                  const CorpusSize& corpus) {
  if (o.batch.pairs > 0) return;
  int64_t tokens = row.batch_tokens;
  if (row.least_steps > 0) {
    tokens = std::min(tokens, round_steps(std::max(1.0, corpus.target_tokens / kLeastBatches)));
  }
  chooser.choose("batch.target-tokens", o.batch.target_tokens, tokens);
}

void choose_kind(Chooser& chooser, ScheduleOptions& o) {
  for (const char* key : {"schedule.factor", "schedule.width"}) {
    if (chooser.is_free(key)) continue;
    chooser.choose("schedule.kind", o.kind, ScheduleKind::kNoam, format("noam (for {})", key));
    return;
  }
  chooser.choose("schedule.kind", o.kind, ScheduleKind::kWsd, "wsd");
}

// Whether the step at which --max-epochs ends the run is counted at its start.
bool counted_epochs(const TrainOptions& o, const CorpusSize& corpus) {
  return o.max_epochs > 0 && o.max_epochs * corpus.pairs <= kMostCountedPairs;
}

// The number of steps, at which the decay of wsd ends, where no limit gives it. --max-time is no
// such limit: it can only end the run earlier.
void choose_length(Chooser& chooser, TrainOptions& o, const RecipeRow& row,
                   const CorpusSize& corpus) {
  if (o.schedule.kind != ScheduleKind::kWsd || o.max_steps > 0) return;
  const double in_epoch = steps_in_epoch(o.batch, corpus);
  int64_t steps = 0;
  if (o.max_epochs > 0) {
    if (counted_epochs(o, corpus)) return;
    // Batches are not quite full, so an epoch has a few steps more than this.
    steps = static_cast<int64_t>(
        std::clamp(o.max_epochs * in_epoch, 1.0, static_cast<double>(kMaxSteps)));
  } else if (o.eval.patience > 0) {
    return;
  } else {
    steps = std::max(row.least_steps, round_steps(row.epochs * in_epoch));
  }
  if (chooser.choose("max-steps", o.max_steps, steps)) o.max_steps_chosen = true;
}

void choose_optimizer(Chooser& chooser, TrainOptions& o) {
  const bool sharded = o.workers.shard_optimizer;
  const auto kind = sharded ? OptimizerKind::kAdam : OptimizerKind::kMuon;
  chooser.choose("optimizer.kind", o.optimizer.kind, kind,
                 sharded ? "adam (--shard-optimizer cannot divide the matrices of muon)" : "muon");
}

// The ratio that leaves the hidden matrices their measured rate beside a rate that is given.
double ratio_beside(double rate, double best_rate, double best_ratio) {
  if (rate == best_rate) return best_ratio;
  const double ratio = std::round(100 * best_rate * best_ratio / rate) / 100;
  return std::clamp(ratio, kLeastMuonRatio, kMostMuonRatio);
}

// Expects the rate of the schedule.
void choose_muon(Chooser& chooser, TrainOptions& o, const RecipeRow& row, double best_rate) {
  if (o.optimizer.kind != OptimizerKind::kMuon) return;
  if (o.schedule.kind == ScheduleKind::kWsd) {
    chooser.choose("optimizer.muon-ratio", o.optimizer.muon_ratio,
                   ratio_beside(o.schedule.rate, best_rate, row.muon_ratio));
  }
  chooser.choose("optimizer.weight-decay", o.optimizer.weight_decay, row.weight_decay);
  chooser.choose("optimizer.beta2", o.optimizer.beta2, row.beta2);
}

// The numbers are those of wsd; any other kind has its own defaults.
void choose_schedule(Chooser& chooser, ScheduleOptions& o, double rate, int64_t warmup,
                     std::optional<double> steps) {
  if (o.kind != ScheduleKind::kWsd) return;
  chooser.choose("schedule.rate", o.rate, rate);
  if (steps) {
    const auto most = static_cast<int64_t>(kMostWarmupShare * *steps);
    warmup = std::clamp<int64_t>(warmup, 1, std::max<int64_t>(1, most));
  }
  chooser.choose("schedule.warmup-steps", o.warmup_steps, warmup);
}

// The decay that wsd has without decay-steps, where the run's last step is known and lies behind
// the warm-up (planned_decay in optim/schedule.h).
void list_decay(Chooser& chooser, const TrainOptions& o, const CorpusSize& corpus,
                std::optional<double> steps) {
  if (o.schedule.kind != ScheduleKind::kWsd || !chooser.is_free("schedule.decay-steps")) return;
  const bool known = o.max_steps > 0 || counted_epochs(o, corpus);
  const auto peak = static_cast<double>(std::max<int64_t>(o.schedule.warmup_steps, 1));
  if (known && steps && *steps > peak) chooser.list("decay over the last half");
}

// Often enough for a verdict on the validation losses before the decay.
void choose_intervals(Chooser& chooser, TrainOptions& o, std::optional<double> steps) {
  if (!steps) return;
  const int64_t every =
      std::clamp(round_steps(std::max(1.0, *steps / kTestsInRun)), kLeastInterval, kMostInterval);
  chooser.choose("eval.every", o.eval.every, every);
  chooser.choose("checkpoint.every", o.checkpoint.every, every);
}

void choose_dropout(Chooser& chooser, DropoutOptions& o, const RecipeRow& row) {
  if (!chooser.is_free("dropout.all")) return;
  chooser.choose("dropout.embedding", o.embedding, row.embedding_dropout);
  chooser.choose("dropout.residual", o.residual, row.residual_dropout);
  chooser.choose("dropout.attention", o.attention, row.inner_dropout);
  chooser.choose("dropout.activation", o.activation, row.inner_dropout);
}

}  // namespace

void apply_recipe(TrainOptions& o, const CorpusSize& corpus) {
  if (o.recipe == Recipe::kClassic || !o.given) return;
  Chooser chooser(o.given);
  const RecipeRow& usual = row_for(corpus.pairs, std::nullopt);
  choose_batch(chooser, o, usual, corpus);
  choose_kind(chooser, o.schedule);
  choose_length(chooser, o, usual, corpus);
  const double in_epoch = steps_in_epoch(o.batch, corpus);
  const std::optional<double> steps = planned_steps(o, in_epoch);
  std::optional<double> epochs;
  if (steps) epochs = *steps / in_epoch;
  const RecipeRow& row = row_for(corpus.pairs, epochs);
  choose_optimizer(chooser, o);
  const double muon_rate = o.preset == "big" ? kBigRate : row.rate;
  const bool muon = o.optimizer.kind == OptimizerKind::kMuon;
  choose_schedule(chooser, o.schedule, muon ? muon_rate : row.adam_rate, row.warmup_steps, steps);
  choose_muon(chooser, o, row, muon_rate);
  list_decay(chooser, o, corpus, steps);
  choose_dropout(chooser, o.dropout, row);
  choose_intervals(chooser, o, steps);
  if (chooser.text().empty()) return;
  const bool measured = row.measured && (o.preset == "small" || o.preset == "base");
  o.chosen = format("recipe best for a {} corpus ({}{}): {}", row.corpus,
                    measured ? "" : "extrapolated; ", kRecipeScope, chooser.text());
}

void apply_recipe(ScheduleCommandOptions& o) {
  if (o.recipe == Recipe::kClassic || !o.given) return;
  constexpr double kMediumPairs = 200'000;
  const RecipeRow& row = row_for(kMediumPairs, std::nullopt);
  Chooser chooser(o.given);
  choose_kind(chooser, o.schedule);
  choose_schedule(chooser, o.schedule, row.rate, row.warmup_steps, static_cast<double>(o.steps));
  if (o.schedule.kind != ScheduleKind::kWsd || chooser.text().empty()) return;
  o.chosen = format("recipe best for a {} corpus with muon", row.corpus);
}

}  // namespace reigen
