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
constexpr CorpusSize kMediumToLargeCorpus = {900'000, 26'000'000};
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
      EXPECT_EQ(before->least_steps, row.least_steps);
      EXPECT_EQ(before->batch_tokens, row.batch_tokens);
    }
    before = &row;
  }
  EXPECT_EQ(before->most_pairs, kAnyPairs);
  EXPECT_EQ(before->most_epochs, kAnyEpochs);
}

TEST(Recipe, ChoosesBySizeOfTheCorpus) {
  for (const auto& [corpus, name] :
       {std::pair(kSmallCorpus, "small"), std::pair(kMediumCorpus, "medium"),
        std::pair(kMediumToLargeCorpus, "medium to large"), std::pair(kLargeCorpus, "large")}) {
    SCOPED_TRACE(name);
    const TrainOptions options = chosen_options({}, corpus);
    const RecipeRow& row = recipe_row(name, recipe_row(name, 1).epochs);
    expect_row(options, row);
    const double tokens = row.epochs * corpus.target_tokens;
    EXPECT_NEAR(static_cast<double>(options.max_steps * row.batch_tokens) / tokens, 1, 0.05);
    EXPECT_TRUE(options.max_steps_chosen);
    EXPECT_EQ(options.chosen.find("(extrapolated;") == std::string::npos, row.measured);
    EXPECT_THAT(options.chosen, HasSubstr(kRecipeScope));
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
  EXPECT_EQ(noam.max_steps, 0);  // that of the recipe ends with the decay of wsd
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

TEST(Recipe, TimeIsNoLengthOfARun) {
  const TrainOptions plain = chosen_options({}, kMediumCorpus);
  const TrainOptions timed = chosen_options({"--max-time=12h"}, kMediumCorpus);
  EXPECT_EQ(timed.max_steps, plain.max_steps);
  EXPECT_EQ(timed.max_time, 12 * 3600);
  EXPECT_THAT(timed.chosen, HasSubstr("decay over the last half"));
  for (const char* limit : {"--eval.patience=3", "--max-steps=0"}) {
    const TrainOptions options = chosen_options({limit}, kMediumCorpus);
    EXPECT_EQ(options.max_steps, 0) << limit;
    EXPECT_FALSE(options.max_steps_chosen);
    EXPECT_EQ(options.schedule.kind, ScheduleKind::kWsd);
    EXPECT_EQ(options.schedule.warmup_steps, recipe_row("medium", 1).warmup_steps);
    EXPECT_EQ(options.eval.every, TrainOptions().eval.every);
    EXPECT_THAT(options.chosen, Not(HasSubstr("decay over")));
  }
}

TEST(Recipe, TheHiddenMatricesKeepTheirRate) {
  const RecipeRow& row = recipe_row("small", 35);
  for (const auto& [rate, ratio] :
       {std::pair(row.rate, row.muon_ratio), std::pair(0.002, row.rate * row.muon_ratio / 0.002),
        std::pair(1e-5, kMostMuonRatio), std::pair(1.0, kLeastMuonRatio)}) {
    const TrainOptions options =
        chosen_options({"--schedule.rate", format("{}", rate)}, kSmallCorpus);
    EXPECT_EQ(options.schedule.rate, rate);
    EXPECT_NEAR(options.optimizer.muon_ratio, ratio, 0.006) << rate;
  }
  const TrainOptions noam = chosen_options({"--schedule.kind", "noam"}, kSmallCorpus);
  EXPECT_EQ(noam.optimizer.kind, OptimizerKind::kMuon);
  EXPECT_EQ(noam.optimizer.muon_ratio, TrainOptions().optimizer.muon_ratio);
}

TEST(Recipe, AnOptionOfNoamMeansNoam) {
  for (const char* option :
       {"--schedule.factor=1", "--schedule.factor=2", "--schedule.width=512"}) {
    const TrainOptions options =
        chosen_options({option, "--schedule.warmup-steps", "4000"}, kMediumCorpus);
    EXPECT_EQ(options.schedule.kind, ScheduleKind::kNoam) << option;
    EXPECT_EQ(options.schedule.rate, TrainOptions().schedule.rate);
    EXPECT_EQ(options.schedule.warmup_steps, 4000);
    EXPECT_EQ(options.max_steps, 0);
    const TrainOptions given = chosen_options({option, "--schedule.kind", "wsd"}, kMediumCorpus);
    EXPECT_EQ(given.schedule.kind, ScheduleKind::kWsd);
  }
}

TEST(Recipe, EvaluatesAboutTwentyTimes) {
  for (const auto& [steps, every] :
       {std::pair(100, kLeastInterval), std::pair<int, int64_t>(3400, 170),
        std::pair<int, int64_t>(5700, 290), std::pair(400'000, kMostInterval)}) {
    const TrainOptions options =
        chosen_options({"--max-steps", std::to_string(steps)}, kMediumCorpus);
    EXPECT_NEAR(static_cast<double>(options.eval.every), static_cast<double>(every), 10);
    EXPECT_EQ(options.checkpoint.every, options.eval.every);
  }
  const TrainOptions given = chosen_options({"--eval.every", "7"}, kMediumCorpus);
  EXPECT_EQ(given.eval.every, 7);
  EXPECT_NE(given.checkpoint.every, 7);
}

TEST(Recipe, EpochsTooManyToCountHaveAnEstimateOfTheirSteps) {
  const TrainOptions options = chosen_options({"--max-epochs", "25"}, kLargeCorpus);
  const auto batch = static_cast<double>(options.batch.target_tokens);
  EXPECT_EQ(options.max_epochs, 25);
  EXPECT_EQ(options.max_steps, static_cast<int64_t>(25 * kLargeCorpus.target_tokens / batch));
  EXPECT_THAT(options.chosen, HasSubstr("decay over the last half"));
  const TrainOptions open =
      chosen_options({"--max-epochs", "25", "--max-steps", "0"}, kLargeCorpus);
  EXPECT_EQ(open.max_steps, 0);
  EXPECT_THAT(open.chosen, Not(HasSubstr("decay over")));
}

TEST(Recipe, ListsNoDecayWithinTheWarmup) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--schedule.warmup-steps", "4000"}, {"--max-steps", "1"}}) {
    EXPECT_THAT(chosen_options(args, kMediumCorpus).chosen, Not(HasSubstr("decay over")));
  }
}

TEST(Recipe, AVerySmallCorpusHasEnoughSteps) {
  for (double pairs : {20.0, 100.0, 1000.0}) {
    const CorpusSize corpus = {pairs, 15 * pairs};
    const TrainOptions options = chosen_options({"--preset", "small"}, corpus);
    EXPECT_EQ(options.max_steps, 500) << pairs;
    EXPECT_GE(options.batch.target_tokens, 1);
    EXPECT_NEAR(corpus.target_tokens / static_cast<double>(options.batch.target_tokens),
                kLeastBatches, 1);
    EXPECT_THAT(options.chosen, HasSubstr("(extrapolated;"));
  }
  EXPECT_EQ(chosen_options({"--max-steps", "60"}, {100, 1500}).max_steps, 60);
}

TEST(Recipe, OtherPresetsThanThoseMeasuredAreExtrapolated) {
  for (const char* preset : {"tiny", "small", "base", "big"}) {
    const TrainOptions options = chosen_options({"--preset", preset}, kMediumCorpus);
    const bool big = std::string(preset) == "big";
    const bool measured = !big && std::string(preset) != "tiny";
    EXPECT_EQ(options.chosen.find("(extrapolated;") == std::string::npos, measured) << preset;
    EXPECT_EQ(options.schedule.rate, big ? kBigRate : recipe_row("medium", 1).rate);
    EXPECT_EQ(options.optimizer.muon_ratio, recipe_row("medium", 1).muon_ratio);
  }
}

TEST(Recipe, NoPairsInABatchMeansTokens) {
  EXPECT_EQ(chosen_options({"--batch.pairs", "0"}, kMediumCorpus).batch.target_tokens,
            recipe_row("medium", 1).batch_tokens);
}

TEST(Recipe, OptionsOfAFileAreGiven) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  schema.parse_yaml("max-epochs: 3\nschedule:\n  rate: 0.001\ndropout:\n  residual: 0.25\n",
                    "a.yaml");
  options.given = schema.given_keys();
  apply_recipe(options, kMediumCorpus);
  EXPECT_EQ(options.max_steps, 0);
  EXPECT_EQ(options.max_epochs, 3);
  EXPECT_EQ(options.schedule.rate, 0.001);
  EXPECT_EQ(options.dropout.residual, 0.25);
  EXPECT_EQ(options.dropout.embedding, recipe_row("medium", 3).embedding_dropout);
  EXPECT_EQ(options.optimizer.muon_ratio, 3);
}

// As config.yaml of a run had them before there were recipes.
constexpr const char* kBeforeRecipes = R"({"preset": "base", "max-steps": 0, "max-epochs": 0,
  "seed": 1, "smoothing": 0.1,
  "dropout": {"embedding": 0.1, "attention": 0.1, "activation": 0.1, "residual": 0.1},
  "batch": {"target-tokens": 4096, "pairs": 0},
  "optimizer": {"kind": "adam", "beta1": 0.9, "beta2": 0.98, "epsilon": 1e-9,
    "weight-decay": 0.01, "momentum": 0.95, "muon-ratio": 2, "muon-split": true, "clip": 1,
    "max-skipped": 20, "loss-scaling": "backoff"},
  "schedule": {"kind": "noam", "rate": 0.001, "warmup-steps": 0, "start-rate": 0, "min-rate": 0,
    "decay-steps": 0, "decay-rate": 0.5, "staircase": false, "power": 0, "factor": 2, "width": 0},
  "eval": {"every": 1000, "bleu": true, "sentences": 0, "samples": 3, "patience": 0,
    "stop-on": "loss"},
  "checkpoint": {"every": 1000, "keep": 3},
  "decode": {"beam": 4, "alpha": 0.6, "max-ratio": 2, "batch-tokens": 0}})";

TEST(Recipe, ClassicIsTheDefaultsBeforeRecipes) {
  const TrainOptions options = chosen_options({"--recipe", "classic"}, kMediumCorpus);
  EXPECT_THAT(options.chosen, IsEmpty());
  const Json now = recorded_options(options);
  const Json then = Json::parse(kBeforeRecipes);
  for (const auto& [key, before] : then.items()) {
    if (!before.is_object()) {
      EXPECT_EQ(now.at(key), before) << key;
      continue;
    }
    for (const auto& [name, value] : before.items()) {
      EXPECT_EQ(now.at(key).at(name), value) << key << "." << name;
    }
  }
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

// The options of a resumed run whose number of steps the recipe chose.
TrainOptions resumed_options(const std::vector<std::string>& args) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  const TrainOptions first = chosen_options({}, kMediumCorpus);
  parse_recorded(schema, options, pretty(recorded_options(first)), "config.yaml",
                 Schema::UnknownKeys::kRefuse);
  TrainOptions line;
  Schema now("train", "Trains.");
  describe(now, line);
  for (Schema* each : {&now, &schema}) {
    std::vector<std::string> all = {"--run", "runs/first"};
    all.insert(all.end(), args.begin(), args.end());
    each->parse(all);
  }
  options.given = schema.given_keys();
  drop_chosen_limit(options, now.given_keys());
  apply_recipe(options, kMediumCorpus);
  return options;
}

TEST(Recipe, AChosenNumberOfStepsGivesWayOnResume) {
  const int64_t chosen = chosen_options({}, kMediumCorpus).max_steps;
  for (const char* limit : {"--max-epochs=40", "--eval.patience=3"}) {
    const TrainOptions options = resumed_options({limit});
    EXPECT_EQ(options.max_steps, 0) << limit;
    EXPECT_FALSE(options.max_steps_chosen);
    EXPECT_THAT(options.chosen, HasSubstr(format("max-steps {}", chosen)));
  }
  for (const char* other : {"--max-time=2h", "--eval.every=9"}) {
    const TrainOptions options = resumed_options({other});
    EXPECT_EQ(options.max_steps, chosen) << other;
    EXPECT_TRUE(options.max_steps_chosen);
  }
  const TrainOptions given = resumed_options({"--max-steps=5000", "--max-epochs=40"});
  EXPECT_EQ(given.max_steps, 5000);
  EXPECT_FALSE(given.max_steps_chosen);
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
  EXPECT_THAT(options.chosen, HasSubstr("medium corpus with muon"));
  options = {.recipe = Recipe::kClassic};
  options.given.emplace();
  apply_recipe(options);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::kNoam);
}

}  // namespace
}  // namespace reigen
