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

bool has_limit(const TrainOptions& o) {
  return o.max_steps > 0 || o.max_epochs > 0 || o.max_time > 0 || o.eval.patience > 0;
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

void choose_batch(Chooser& chooser, TrainOptions& o, const RecipeRow& row) {
  if (!chooser.is_free("batch.pairs") || o.batch.pairs > 0) return;
  chooser.choose("batch.target-tokens", o.batch.target_tokens, row.batch_tokens);
}

void choose_optimizer(Chooser& chooser, TrainOptions& o, const RecipeRow& row) {
  const bool sharded = o.workers.shard_optimizer;
  const auto kind = sharded ? OptimizerKind::kAdam : OptimizerKind::kMuon;
  chooser.choose("optimizer.kind", o.optimizer.kind, kind,
                 sharded ? "adam (--shard-optimizer cannot divide the matrices of muon)" : "muon");
  if (o.optimizer.kind != OptimizerKind::kMuon) return;
  chooser.choose("optimizer.muon-ratio", o.optimizer.muon_ratio, row.muon_ratio);
  chooser.choose("optimizer.weight-decay", o.optimizer.weight_decay, row.weight_decay);
  chooser.choose("optimizer.beta2", o.optimizer.beta2, row.beta2);
}

// The numbers are those of wsd, so a kind that is given has its own defaults.
void choose_schedule(Chooser& chooser, ScheduleOptions& o, const RecipeRow& row, bool muon,
                     std::optional<double> steps) {
  chooser.choose("schedule.kind", o.kind, ScheduleKind::kWsd, "wsd");
  if (o.kind != ScheduleKind::kWsd) return;
  chooser.choose("schedule.rate", o.rate, muon ? row.rate : row.adam_rate);
  int64_t warmup = row.warmup_steps;
  if (steps) {
    const auto most = static_cast<int64_t>(kMostWarmupShare * *steps);
    warmup = std::clamp<int64_t>(warmup, 1, std::max<int64_t>(1, most));
  }
  chooser.choose("schedule.warmup-steps", o.warmup_steps, warmup);
  constexpr double kUsualShare = 0.5;  // of wsd without decay-steps, which follows --max-steps
  if (steps && row.decay_share != kUsualShare) {
    const auto decay = std::max<int64_t>(1, std::llround(row.decay_share * *steps));
    chooser.choose("schedule.decay-steps", o.decay_steps, decay);
  } else if (steps && chooser.is_free("schedule.decay-steps")) {
    chooser.list("decay over the last half");
  }
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
  choose_batch(chooser, o, row_for(corpus.pairs, std::nullopt));
  const double in_epoch = steps_in_epoch(o.batch, corpus);
  if (!has_limit(o)) {
    const double epochs = row_for(corpus.pairs, std::nullopt).epochs;
    chooser.choose("max-steps", o.max_steps, round_steps(epochs * in_epoch));
  }
  const std::optional<double> steps = planned_steps(o, in_epoch);
  std::optional<double> epochs;
  if (steps) epochs = *steps / in_epoch;
  const RecipeRow& row = row_for(corpus.pairs, epochs);
  choose_optimizer(chooser, o, row);
  const bool muon = o.optimizer.kind == OptimizerKind::kMuon;
  choose_schedule(chooser, o.schedule, row, muon, steps);
  choose_dropout(chooser, o.dropout, row);
  if (row.ema_decay > 0) chooser.choose("ema.decay", o.ema_decay, row.ema_decay);
  if (chooser.text().empty()) return;
  o.chosen =
      format("recipe best for a {} corpus{}: {}", row.corpus,
             row.measured ? "" : " (extrapolated from smaller ones, not measured)", chooser.text());
}

void apply_recipe(ScheduleCommandOptions& o) {
  if (o.recipe == Recipe::kClassic || !o.given) return;
  constexpr double kMediumPairs = 200'000;
  Chooser chooser(o.given);
  choose_schedule(chooser, o.schedule, row_for(kMediumPairs, std::nullopt), true,
                  static_cast<double>(o.steps));
}

}  // namespace reigen
