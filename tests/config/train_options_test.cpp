// The options of a training run: defaults, the recorded file, changes on resume, and workers.
#include "config/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/error.h"
#include "config/yaml.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TrainOptions train_options(const std::vector<std::string>& args) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  std::vector<std::string> all = {"--run", "runs/first"};
  all.insert(all.end(), args.begin(), args.end());
  schema.parse(all);
  return options;
}

std::string resolve_error(const std::vector<std::string>& args) {
  try {
    resolve(train_options(args));
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << ::testing::PrintToString(args);
  return "";
}

TrainOptions train_options_of_yaml(const std::string& text) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  schema.parse_yaml(text, "config.yaml");
  return options;
}

TEST(Resolve, FillsInPresetAndScheduleWidth) {
  const TrainOptions options = resolve(train_options({"--preset", "tiny", "--max-steps", "5"}));
  EXPECT_EQ(options.model.width, 128);
  EXPECT_EQ(options.model.encoder_layers, 2);
  EXPECT_EQ(options.schedule.width, 128);
  EXPECT_GT(options.schedule.warmup_steps, 0);
}

TEST(Resolve, IsIdempotent) {
  const TrainOptions once = resolve(train_options({"--max-steps", "5", "--model.width", "64"}));
  EXPECT_EQ(one_line(recorded_options(resolve(once))), one_line(recorded_options(once)));
}

TEST(Resolve, RefusesATrainingWithoutALimit) {
  EXPECT_THAT(resolve_error({}), HasSubstr("would never end"));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--max-steps", "1"},
                                               {"--max-epochs", "0.5"},
                                               {"--max-time", "1h"},
                                               {"--eval.patience", "3"}}) {
    EXPECT_NO_THROW(resolve(train_options(args)));
  }
}

TEST(Resolve, RefusesEvaluationSettingsThatContradictEachOther) {
  EXPECT_THAT(resolve_error({"--eval.patience", "3", "--eval.every", "0"}),
              HasSubstr("set eval.every above 0"));
  EXPECT_THAT(resolve_error({"--max-steps", "1", "--eval.stop-on", "bleu", "--no-eval.bleu"}),
              HasSubstr("eval.stop-on is bleu but eval.bleu is off"));
  EXPECT_THAT(resolve_error({"--max-steps", "1", "--eval.stop-on", "chrf", "--no-eval.bleu"}),
              HasSubstr("eval.stop-on is chrf but eval.bleu is off"));
  EXPECT_THAT(resolve_error({"--max-steps", "1", "--eval.stop-on", "command"}),
              HasSubstr("eval.command"));
}

TEST(Resolve, RefusesFineTuningSettingsThatContradictEachOther) {
  EXPECT_THAT(resolve_error({"--max-steps", "1", "--from-optimizer"}), HasSubstr("add --from"));
  EXPECT_THAT(resolve_error({"--max-steps", "1", "--freeze", "encoder", "--shard-optimizer"}),
              HasSubstr("--shard-optimizer"));
}

TEST(Resume, AStartingPointAndFrozenPartsAreFixed) {
  const Json before = recorded_options(train_options({"--from", "/a", "--freeze", "encoder"}));
  EXPECT_EQ(changed_settings(before, train_options({"--from", "/a", "--freeze", "encoder",
                                                    "--eval.old-data", "/b"}))
                .size(),
            0u);
  EXPECT_EQ(changed_settings(before, train_options({"--from", "/b"})).size(), 2u);
}

TEST(RecordedTraining, ReadsBackFromItsFileExactly) {
  const std::vector<std::vector<std::string>> runs = {
      {"--max-steps", "100"},
      {"--max-time", "1h30m", "--memory", "6GB", "--data", "/data/an odd: \"name\" #1"},
      {"--max-epochs", "0.30000000000000004", "--dropout", "0.1", "--dropout.attention", "0.2"},
      {"--max-steps", "1", "--schedule.kind", "piecewise", "--schedule.boundaries", "10,20",
       "--schedule.values", "0.1,0.05,1e-7"},
      {"--max-steps",
       "1",
       "--model.norm",
       "post",
       "--model.activation",
       "swish",
       "--model.positions",
       "learned",
       "--no-model.tied",
       "--model.biases",
       "--optimizer.kind",
       "adamw",
       "--eval.stop-on",
       "bleu",
       "--from",
       "a b",
       "--from-optimizer",
       "--freeze",
       "encoder,decoder.0",
       "--eval.command",
       "x \"$SOURCE\" | awk '{print $1: #}'",
       "--quiet",
       "--seed",
       "9223372036854775807"},
  };
  for (const auto& args : runs) {
    for (const TrainOptions& options : {train_options(args), resolve(train_options(args))}) {
      const Json recorded = recorded_options(options);
      const TrainOptions read = train_options_of_yaml(to_yaml(recorded));
      EXPECT_EQ(pretty(recorded_options(read)), pretty(recorded)) << to_yaml(recorded);
      EXPECT_EQ(recorded_options(read), recorded);
    }
  }
}

TEST(RecordedTraining, RoundTripsEveryBitOfANumber) {
  // Numbers that fewer than 17 digits would change, tiny ones, and ones that look like others.
  const std::vector<double> numbers = {0.1 + 0.2, std::nextafter(0.1, 1),  1.0 / 3,
                                       1e-20,     std::nextafter(1e-9, 1), 0x1.fffffffffffffp-2,
                                       0.5};
  for (double number : numbers) {
    TrainOptions options = train_options({});
    options.optimizer.epsilon = number;
    options.optimizer.beta1 = number;
    options.optimizer.clip = number * 1e6;
    options.max_time = number * 1e9;
    options.max_epochs = number;
    options.schedule.values = {number + 1e-9, number / 7 + 1e-9};
    const TrainOptions read = train_options_of_yaml(to_yaml(recorded_options(options)));
    auto expect_same = [](double a, double b) {
      EXPECT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << a << " and " << b;
    };
    expect_same(read.optimizer.epsilon, options.optimizer.epsilon);
    expect_same(read.optimizer.beta1, options.optimizer.beta1);
    expect_same(read.optimizer.clip, options.optimizer.clip);
    expect_same(read.max_time, options.max_time);
    expect_same(read.max_epochs, options.max_epochs);
    ASSERT_EQ(read.schedule.values.size(), 2u);
    expect_same(read.schedule.values[0], options.schedule.values[0]);
    expect_same(read.schedule.values[1], options.schedule.values[1]);
  }
}

TEST(RecordedTraining, HasEveryOptionButTheShorthand) {
  const Json recorded = recorded_options(train_options({"--dropout", "0.25"}));
  EXPECT_FALSE(recorded.at("dropout").contains("all"));
  EXPECT_EQ(recorded.at("dropout").at("residual"), 0.25);
  for (const char* key : {"preset", "data", "run", "max-steps", "memory", "model", "batch",
                          "optimizer", "schedule", "eval", "decode", "checkpoint", "smoothing"}) {
    EXPECT_TRUE(recorded.contains(key)) << key;
  }
}

TEST(RecordedConfig, IsTheFileOfAnExistingRun) {
  TempDir dir;
  TrainOptions options;
  options.run = dir.path();
  EXPECT_EQ(recorded_config(options), std::nullopt);
  write_text(dir.path("config.yaml"), "seed: 1\n");
  EXPECT_EQ(recorded_config(options), dir.path("config.yaml"));
  options.data = "data";  // without a checkpoint the run starts with the given options
  EXPECT_EQ(recorded_config(options), std::nullopt);
  write_text(dir.path("last"), "");
  EXPECT_EQ(recorded_config(options), dir.path("config.yaml"));
}

TEST(ReadRecordedOptions, IgnoresKeysOfOtherVersions) {
  TempDir dir;
  EXPECT_EQ(read_recorded_options(dir.path()), std::nullopt);
  write_text(dir.path("config.yaml"), "max-steps: 70\nfrom-the-future: 1\nmodel: {later: 2}\n");
  EXPECT_EQ(read_recorded_options(dir.path())->max_steps, 70);
  write_text(dir.path("config.yaml"), "max-steps: many\n");
  EXPECT_THROW(read_recorded_options(dir.path()), ConfigError);
}

TEST(TrainAttributes, EveryOptionDecidesWhetherItMayChangeOnResume) {
  TrainOptions options;
  Schema schema("train", "Trains.");
  describe(schema, options);
  for (const Option& option : schema.options()) {
    if (!option.current) continue;  // a shorthand has no value
    EXPECT_NE(option.on_resume, OnResume::kUndecided)
        << option.key << ": add .free_on_resume(), .fixed_on_resume() or .hyperparameter()";
  }
}

TEST(TrainAttributes, TheLivePageIsNotRecorded) {
  const Json recorded = recorded_options(
      train_options({"--dashboard", "--dashboard-token", "secret", "--dashboard-port", "1234"}));
  EXPECT_EQ(recorded, recorded_options(train_options({})));
  EXPECT_EQ(recorded.at("dashboard-token"), "");
}

TEST(TrainAttributes, WorkersMayDifferInTheirMachineOnly) {
  auto same_for_all = [](const std::vector<std::string>& args) {
    TrainOptions options = train_options(args);
    Schema schema("train", "Trains.");
    describe(schema, options);
    return one_line(schema.same_for_all_workers());
  };
  const std::string plain = same_for_all({});
  EXPECT_EQ(same_for_all({"--threads", "3", "--memory", "1GB", "--device", "cpu", "--data", "d",
                          "--interface", "eth1", "--quiet", "--dashboard"}),
            plain);
  EXPECT_NE(same_for_all({"--precision", "fp32"}), plain);
  EXPECT_NE(same_for_all({"--compress", "int4"}), plain);
  EXPECT_NE(same_for_all({"--seed", "2"}), plain);
}

TEST(OptionsForWorker, AreRank0sExceptForThoseOfTheMachineAndOfTheLaunch) {
  const TrainOptions rank0 =
      train_options({"--seed", "7", "--data", "theirs", "--quiet", "--threads", "2", "--compress",
                     "int4", "--max-time", "90s"});
  const std::string text = to_yaml(recorded_options(rank0));
  const TrainOptions own =
      train_options({"--data", "mine", "--threads", "3", "--memory", "1GB", "--device", "cuda:1",
                     "--precision", "fp16", "--stall", "0"});
  const TrainOptions options = options_for_worker(text, own);
  EXPECT_EQ(options.seed, 7);
  EXPECT_EQ(options.max_time, 90);
  EXPECT_TRUE(options.quiet);
  EXPECT_EQ(options.data, "mine");
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.memory, 1'000'000'000U);
  EXPECT_EQ(options.device.device, "cuda:1");
  EXPECT_EQ(options.device.precision, Precision::kFp16);
  EXPECT_EQ(options.workers.stall, 0);
  EXPECT_EQ(options.workers.compress.method, CompressMethod::kNone);
  EXPECT_EQ(options_for_worker(text, train_options({})).data, "theirs");
  // Not recorded, but needed by a worker that becomes rank 0.
  EXPECT_EQ(options_for_worker(text, train_options({"--eval.command", "x"})).eval.command, "x");
  const TrainOptions copies = train_options({"--checkpoint.copy-to", "/copy"});
  EXPECT_EQ(options_for_worker(text, copies).checkpoint.copy_to, "/copy");
  const TrainOptions notified = train_options({"--on-event", "true"});
  EXPECT_EQ(options_for_worker(text, notified).on_event, "true");
}

std::vector<std::string> changes_by(const std::vector<std::string>& args) {
  return changed_settings(recorded_options(train_options({})), train_options(args));
}

TEST(ChangedSettings, NamesOptionsThatAreFixedOnResume) {
  EXPECT_THAT(changes_by({}), IsEmpty());
  EXPECT_THAT(changes_by({"--seed", "2"}), ElementsAre("seed was 1 and is 2 now"));
  EXPECT_THAT(changes_by({"--micro-tokens", "9"}), ElementsAre("micro-tokens was 0 and is 9 now"));
  EXPECT_THAT(changes_by({"--model.norm", "post", "--smoothing", "0"}),
              ElementsAre("model.norm was \"pre\" and is \"post\" now",
                          "smoothing was 0.1 and is 0.0 now"));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"--batch.pairs", "5"},
                                               {"--optimizer.clip", "0"},
                                               {"--dropout.attention", "0.2"},
                                               {"--schedule.kind", "cosine"},
                                               {"--model.width", "64"},
                                               {"--schedule.boundaries", "1,2"}}) {
    EXPECT_EQ(changes_by(args).size(), 1u) << args[0];
  }
}

TEST(ChangedSettings, AllowsLimitsLoggingAndEvaluationToChange) {
  EXPECT_THAT(changes_by({"--max-steps",
                          "9",
                          "--max-epochs",
                          "2",
                          "--max-time",
                          "1h",
                          "--threads",
                          "3",
                          "--memory",
                          "1GB",
                          "--log-every",
                          "1",
                          "--quiet",
                          "--eval.every",
                          "5",
                          "--eval.patience",
                          "2",
                          "--beam",
                          "8",
                          "--checkpoint.keep",
                          "9",
                          "--optimizer.max-skipped",
                          "5",
                          "--data",
                          "elsewhere"}),
              IsEmpty());
}

TEST(ChangedSettings, IgnoresOptionsThatTheRunDidNotRecord) {
  Json before = recorded_options(train_options({}));
  before.erase("smoothing");
  before["model"].erase("biases");
  EXPECT_THAT(changed_settings(before, train_options({"--model.biases"})), IsEmpty());
}

TEST(Resolve, RefusesAReplayOfAJobThatIsNotElastic) {
  const std::vector<std::string> replay = {"--max-steps", "5", "--replay", "runs/before"};
  EXPECT_THAT(resolve_error(replay), HasSubstr("--elastic"));
  std::vector<std::string> elastic = replay;
  elastic.emplace_back("--elastic");
  EXPECT_EQ(resolve(train_options(elastic)).workers.replay, "runs/before");
}

TEST(StepRange, IsTwoStepsInOrder) {
  EXPECT_EQ(parse_step_range("100:104").first, 100U);
  EXPECT_EQ(parse_step_range("100:104").last, 104U);
  EXPECT_EQ(parse_step_range("7:7").last, 7U);
  for (const char* wrong : {"", "7", "7:", ":7", "0:4", "8:7", "1:20000", "a:b", "1:2:3"}) {
    EXPECT_THROW(parse_step_range(wrong), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace reigen
