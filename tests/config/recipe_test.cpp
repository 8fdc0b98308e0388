// Recipes: the choice by size of the corpus and length of the run, and options that are given.
#include "config/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "config/recipe_table.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr CorpusSize kSmallCorpus = {29'000, 420'000};
constexpr CorpusSize kMediumCorpus = {200'000, 5'900'000};
constexpr CorpusSize kLargeCorpus = {4'500'000, 130'000'000};

TrainOptions chosen_options(const std::vector<std::string>& args, const CorpusSize& corpus) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  std::vector<std::string> all = {"--run", "runs/first"};
  all.insert(all.end(), args.begin(), args.end());
  schema.parse(all);
  options.given = schema.given_keys();
  apply_recipe(options, corpus);
  return options;
}

const RecipeRow& recipe_row(const std::string& corpus, double epochs) {
  const RecipeRow* row = kRecipeRows;
  while (row->corpus != corpus || epochs > row->most_epochs) ++row;
  return *row;
}

void expect_row(const TrainOptions& options, const RecipeRow& row) {
  EXPECT_EQ(options.optimizer.kind, OptimizerKind::kMuon);
  EXPECT_EQ(options.optimizer.muon_ratio, row.muon_ratio);
  EXPECT_EQ(options.optimizer.weight_decay, row.weight_decay);
  EXPECT_EQ(options.optimizer.beta2, row.beta2);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::kWsd);
  EXPECT_EQ(options.schedule.rate, row.rate);
  EXPECT_EQ(options.schedule.warmup_steps, row.warmup_steps);
  EXPECT_EQ(options.dropout.embedding, row.embedding_dropout);
  EXPECT_EQ(options.dropout.residual, row.residual_dropout);
  EXPECT_EQ(options.dropout.attention, row.inner_dropout);
  EXPECT_EQ(options.dropout.activation, row.inner_dropout);
  EXPECT_EQ(options.batch.target_tokens, row.batch_tokens);
  EXPECT_EQ(options.ema_decay, row.ema_decay);
}

TEST(RecipeTable, HasRowsForEveryCorpusAndLengthInOrder) {
  const RecipeRow* before = nullptr;
  for (const RecipeRow& row : kRecipeRows) {
    const bool same = before != nullptr && before->most_pairs == row.most_pairs;
    if (before != nullptr && !same) {
      EXPECT_EQ(before->most_epochs, kAnyEpochs) << row.corpus;
      EXPECT_LT(before->most_pairs, row.most_pairs);
    }
    if (same) {
      EXPECT_STREQ(before->corpus, row.corpus);
      EXPECT_LT(before->most_epochs, row.most_epochs);
      EXPECT_EQ(before->epochs, row.epochs);
      EXPECT_EQ(before->batch_tokens, row.batch_tokens);
    }
    EXPECT_GT(row.decay_share, 0);
    EXPECT_LE(row.decay_share + kMostWarmupShare, 1);
    before = &row;
  }
  EXPECT_EQ(before->most_pairs, kAnyPairs);
  EXPECT_EQ(before->most_epochs, kAnyEpochs);
}

TEST(Recipe, ChoosesBySizeOfTheCorpus) {
  for (const auto& [corpus, name] :
       {std::pair(kSmallCorpus, "small"), std::pair(kMediumCorpus, "medium"),
        std::pair(kLargeCorpus, "large")}) {
    SCOPED_TRACE(name);
    const TrainOptions options = chosen_options({}, corpus);
    const RecipeRow& row = recipe_row(name, recipe_row(name, 1).epochs);
    expect_row(options, row);
    const double tokens = row.epochs * corpus.target_tokens;
    EXPECT_NEAR(static_cast<double>(options.max_steps * row.batch_tokens) / tokens, 1, 0.05);
    EXPECT_EQ(options.chosen.find("extrapolated") == std::string::npos, row.measured);
    EXPECT_THAT(options.chosen, HasSubstr("optimizer.kind muon"));
    EXPECT_THAT(options.chosen, HasSubstr(format("max-steps {}", options.max_steps)));
    EXPECT_THAT(options.chosen, HasSubstr(format("dropout.residual {}", row.residual_dropout)));
  }
}

TEST(Recipe, ChoosesByTheLengthOfTheRun) {
  for (double epochs : {10.0, 30.0}) {
    const std::string given = format("{}", epochs);
    const TrainOptions options = chosen_options({"--max-epochs", given}, kMediumCorpus);
    expect_row(options, recipe_row("medium", epochs));
    EXPECT_EQ(options.max_steps, 0);
    const auto batch = static_cast<double>(recipe_row("medium", epochs).batch_tokens);
    const auto steps = static_cast<int64_t>(epochs * kMediumCorpus.target_tokens / batch);
    const TrainOptions by_steps =
        chosen_options({"--max-steps", std::to_string(steps)}, kMediumCorpus);
    EXPECT_EQ(by_steps.dropout.residual, options.dropout.residual);
    EXPECT_EQ(by_steps.max_steps, steps);
  }
}

TEST(Recipe, AShortRunHasAShortWarmup) {
  EXPECT_EQ(chosen_options({"--max-steps", "100"}, kMediumCorpus).schedule.warmup_steps,
            static_cast<int64_t>(kMostWarmupShare * 100));
  EXPECT_EQ(chosen_options({"--max-steps", "2"}, kMediumCorpus).schedule.warmup_steps, 1);
}

TEST(Recipe, OptionsThatAreGivenWin) {
  const TrainOptions options = chosen_options(
      {"--dropout.attention", "0", "--schedule.rate", "0.0005", "--optimizer.muon-ratio", "3",
       "--batch.pairs", "256", "--schedule.warmup-steps", "7"},
      kMediumCorpus);
  EXPECT_EQ(options.dropout.attention, 0);
  const RecipeRow& row = recipe_row("medium", recipe_row("medium", 1).epochs);
  EXPECT_EQ(options.dropout.residual, row.residual_dropout);
  EXPECT_EQ(options.schedule.rate, 0.0005);
  EXPECT_EQ(options.schedule.warmup_steps, 7);
  EXPECT_EQ(options.optimizer.muon_ratio, 3);
  EXPECT_EQ(options.batch.pairs, 256);
  EXPECT_EQ(options.batch.target_tokens, TrainOptions().batch.target_tokens);
  EXPECT_THAT(options.chosen, Not(HasSubstr("rate 0.0005")));
  EXPECT_NEAR(static_cast<double>(options.max_steps * 256) / (row.epochs * 200'000), 1, 0.05);
  const TrainOptions all = chosen_options({"--dropout", "0.4"}, kMediumCorpus);
  EXPECT_EQ(all.dropout.embedding, 0.4);
  EXPECT_EQ(all.dropout.residual, 0.4);
}

TEST(Recipe, ADifferentKindHasItsOwnNumbers) {
  const TrainOptions noam =
      chosen_options({"--schedule.kind", "noam", "--optimizer.kind", "adam"}, kMediumCorpus);
  const TrainOptions plain;
  EXPECT_EQ(noam.schedule.warmup_steps, 0);
  EXPECT_EQ(noam.schedule.rate, plain.schedule.rate);
  EXPECT_EQ(noam.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_THAT(noam.chosen, Not(HasSubstr("schedule")));
  EXPECT_THAT(noam.chosen, Not(HasSubstr("muon")));
}

TEST(Recipe, ShardedMomentsHaveAdam) {
  const TrainOptions options = chosen_options({"--shard-optimizer"}, kMediumCorpus);
  EXPECT_EQ(options.optimizer.kind, OptimizerKind::kAdam);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::kWsd);
  EXPECT_EQ(options.schedule.rate, recipe_row("medium", 1).adam_rate);
  EXPECT_EQ(options.optimizer.beta2, TrainOptions().optimizer.beta2);
  EXPECT_THAT(options.chosen, HasSubstr("--shard-optimizer"));
  const TrainOptions given =
      chosen_options({"--shard-optimizer", "--optimizer.kind", "muon"}, kMediumCorpus);
  EXPECT_EQ(given.optimizer.kind, OptimizerKind::kMuon);
}

TEST(Recipe, TimeAndPatienceAreLimitsToo) {
  for (const char* limit : {"--max-time=1h", "--eval.patience=3", "--max-steps=0"}) {
    const TrainOptions options = chosen_options({limit}, kMediumCorpus);
    EXPECT_EQ(options.max_steps, 0) << limit;
    EXPECT_EQ(options.schedule.kind, ScheduleKind::kWsd);
    EXPECT_EQ(options.schedule.warmup_steps, recipe_row("medium", 1).warmup_steps);
  }
}

TEST(Recipe, ClassicIsTheDefaultsOfTheOptions) {
  const TrainOptions options = chosen_options({"--recipe", "classic"}, kMediumCorpus);
  TrainOptions plain;
  plain.recipe = Recipe::kClassic;
  plain.run = options.run;
  EXPECT_EQ(one_line(recorded_options(options)), one_line(recorded_options(plain)));
  EXPECT_THAT(options.chosen, IsEmpty());
}

TEST(Recipe, ARecordedRunHasNothingLeftToChoose) {
  const TrainOptions first = chosen_options({"--max-steps", "900"}, kMediumCorpus);
  TrainOptions again;
  Schema schema("train", "Trains.");
  describe(schema, again);
  parse_recorded(schema, again, pretty(recorded_options(first)), "config.yaml",
                 Schema::UnknownKeys::kRefuse);
  again.given = schema.given_keys();
  apply_recipe(again, kSmallCorpus);
  EXPECT_EQ(one_line(recorded_options(again)), one_line(recorded_options(first)));
  EXPECT_THAT(again.chosen, IsEmpty());
}

TEST(Recipe, ARecordWithoutARecipeIsClassic) {
  Json recorded = recorded_options(chosen_options({"--max-steps", "900"}, kMediumCorpus));
  recorded.erase("recipe");
  const TrainOptions old = parse_recorded_options(pretty(recorded), "config.yaml");
  EXPECT_EQ(old.recipe, Recipe::kClassic);
  TrainOptions now = old;
  EXPECT_THAT(changed_settings(recorded, now), IsEmpty());
  now.recipe = Recipe::kBest;
  EXPECT_EQ(changed_settings(recorded, now).size(), 1u);
}

TEST(Recipe, OptionsOfAProgramAreComplete) {
  TrainOptions options;
  options.dropout.residual = 0.7;
  const std::string before = one_line(recorded_options(options));
  apply_recipe(options, kMediumCorpus);
  EXPECT_EQ(one_line(recorded_options(options)), before);
}

TEST(Recipe, ShowsItsScheduleWithoutACorpus) {
  ScheduleCommandOptions options;
  options.steps = 1000;
  options.given.emplace();
  apply_recipe(options);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::kWsd);
  EXPECT_EQ(options.schedule.rate, recipe_row("medium", recipe_row("medium", 1).epochs).rate);
  EXPECT_LE(options.schedule.warmup_steps, 200);
  options = {.recipe = Recipe::kClassic};
  options.given.emplace();
  apply_recipe(options);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::kNoam);
}

}  // namespace
}  // namespace reigen
