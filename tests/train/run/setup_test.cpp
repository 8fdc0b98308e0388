// Before the first step: unusable data, too little memory, and runs that cannot be resumed.
#include "train/run/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file/files.h"
#include "config/units.h"
#include "model/activation_memory.h"
#include "train/small_run.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

class SetupTest : public ::testing::Test {
 protected:
  MemoryPlan plan(uint64_t before = 0) {
    return plan_memory(small.options, small.model, small.data, before, {Device::cpu(1)});
  }
  std::optional<TrainState> resume(const RunDirectory& run) {
    return resume_state(run, small.model, small.data, small.options);
  }

  SmallRun small;
};

TEST_F(SetupTest, OpensDataWithItsValidationSet) {
  EXPECT_EQ(small.data.train.pairs(), 300u);
  EXPECT_EQ(small.data.valid->sources.size(), 20u);
  EXPECT_EQ(small.data.fingerprint, sha256_of_file(small.options.data + "/manifest.json"));
  EXPECT_GT(small.data.bytes, 0u);
}

TEST_F(SetupTest, TheRecipeChoosesByTheSizeOfTheDataset) {
  const TrainOptions complete = with_recipe(small.options);
  EXPECT_EQ(complete.dropout.residual, small.options.dropout.residual);
  small.options.given = std::set<std::string>{"batch.target-tokens", "max-steps"};
  const TrainOptions chosen = with_recipe(small.options);
  EXPECT_EQ(chosen.optimizer.kind, OptimizerKind::kMuon);
  EXPECT_EQ(chosen.batch.target_tokens, 400);
  EXPECT_THAT(chosen.chosen, HasSubstr("small corpus"));
  // Steps of a run without a limit follow from the tokens of the training set.
  small.options.given->erase("max-steps");
  small.options.max_steps = 0;
  double tokens = 0;
  for (const CorpusFacts& corpus : small.data.manifest.train) {
    tokens += static_cast<double>(corpus.target.pieces + corpus.lines_kept);
  }
  small.options.batch.target_tokens = 50;
  const double epochs = static_cast<double>(with_recipe(small.options).max_steps) * 50 / tokens;
  EXPECT_NEAR(epochs, 35, 2);
}

TEST_F(SetupTest, TheAverageOfTheWeightsAndMuonNeedMemory) {
  const uint64_t before = plan().fixed;
  small.options.ema_decay = 0.99;
  const uint64_t with_average = plan().fixed;
  EXPECT_EQ(with_average - before, 2 * sizeof(float) * small.model.layout().elements());
  small.options.optimizer.kind = OptimizerKind::kMuon;
  EXPECT_GT(plan().fixed, with_average);
}

TEST_F(SetupTest, RefusesASentenceLongerThanTheModelAcceptsAndNamesTheFix) {
  small.options.model.max_length = 20;
  const std::string error = error_of<DataError>([&] { open_data(small.options); });
  EXPECT_THAT(error, HasSubstr("accepts 20"));
  // The value in the message is enough.
  const size_t at = error.find("--model.max-length ") + 19;
  small.options.model.max_length = std::stoll(error.substr(at));
  EXPECT_NO_THROW(open_data(small.options));
  --small.options.model.max_length;
  EXPECT_THROW(open_data(small.options), DataError);
}

TEST_F(SetupTest, RefusesADatasetWithAMissingFile) {
  fs::remove(small.options.data + "/train-00000.shard");
  EXPECT_THAT(error_of<DataError>([&] { open_data(small.options); }),
              HasSubstr("train-00000.shard"));
}

TEST_F(SetupTest, PlansMicroBatchesThatFitTheMemory) {
  const ActivationBytes bytes = activation_bytes(small.options.model, small.data.vocabulary.size());
  const uint64_t fixed = plan().fixed;
  // At least parameters, gradient, two moments and three copies.
  EXPECT_GT(fixed, 28 * small.model.layout().parameters() + small.data.bytes);
  for (uint64_t tokens : {500, 3000}) {
    small.options.memory = fixed + static_cast<uint64_t>(bytes.of_any(tokens)) + 1;
    EXPECT_NEAR(static_cast<double>(plan().micro_tokens), static_cast<double>(tokens), 1);
    EXPECT_EQ(plan().budget, small.options.memory);
  }
  small.options.memory = 100'000'000'000;
  EXPECT_EQ(plan().micro_tokens, 4096u);  // larger micro-batches gain nothing
}

TEST_F(SetupTest, UsesHalfOfTheFreeMemoryByDefault) {
  small.options.memory = 0;
  EXPECT_GT(plan().budget, 0u);
  EXPECT_GT(plan().micro_tokens, 0u);
}

TEST_F(SetupTest, UsesTheGivenMicroBatchWhereItFits) {
  small.options.memory = 100'000'000'000;
  small.options.micro_tokens = 321;
  EXPECT_EQ(plan().micro_tokens, 321u);
  const ActivationBytes bytes = activation_bytes(small.options.model, small.data.vocabulary.size());
  small.options.memory = plan().fixed + static_cast<uint64_t>(bytes.of_any(1000)) + 1;
  small.options.micro_tokens = 5000;
  EXPECT_NEAR(static_cast<double>(plan().micro_tokens), 1000, 1);
}

TEST_F(SetupTest, RefusesTooLittleMemoryAndNamesAnAmountThatIsEnough) {
  for (uint64_t memory : {uint64_t{1}, uint64_t{1'000'000}, plan().fixed}) {
    small.options.memory = memory;
    const std::string error = error_of<ConfigError>([&] { plan(); });
    const std::string marker = "raise --memory to ";
    const size_t at = error.find(marker) + marker.size();
    small.options.memory = parse_bytes(error.substr(at, error.find(',', at) - at));
    EXPECT_NO_THROW(plan()) << error;
    EXPECT_LT(small.options.memory, plan().fixed + 20'000'000);  // and not much more than necessary
  }
}

TEST_F(SetupTest, ReplaysTheMicroBatchesOfAResumedRun) {
  small.options.memory = 0;
  EXPECT_EQ(plan(123).micro_tokens, 123u);
  EXPECT_EQ(plan(1'000'000).micro_tokens, 1'000'000u);  // no budget was given: the same bits
  small.options.micro_tokens = 50;
  EXPECT_EQ(plan(123).micro_tokens, 123u);
}

TEST_F(SetupTest, ReducesTheMicroBatchesOfAResumedRunToTheBudgetWithAWarning) {
  const ActivationBytes bytes = activation_bytes(small.options.model, small.data.vocabulary.size());
  small.options.memory = plan().fixed + static_cast<uint64_t>(bytes.of_any(1000)) + 1;
  EXPECT_EQ(plan(900).micro_tokens, 900u);
  CaptureStderr();
  EXPECT_NEAR(static_cast<double>(plan(4000).micro_tokens), 1000, 1);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("not 4000 as before"));
}

TEST_F(SetupTest, StartsFromTheSeedWithEmptyMoments) {
  const TrainState state = first_state(small.model, 5);
  EXPECT_EQ(state.parameters, first_state(small.model, 5).parameters);
  EXPECT_NE(state.parameters, first_state(small.model, 6).parameters);
  EXPECT_EQ(state.first_moment, std::vector<float>(small.model.layout().elements()));
  EXPECT_EQ(state.second_moment, state.first_moment);
  EXPECT_EQ(state.counters.step, 0u);
}

class ResumeTest : public SetupTest {
 protected:
  ResumeTest() {
    for (uint64_t step : {10, 20, 30}) small.write(small.state(step), run.checkpoint(step));
  }
  std::string error() {
    CaptureStderr();
    std::string text = error_of<CheckpointError>([&] { resume(run); });
    GetCapturedStderr();
    return text;
  }

  RunDirectory run{small.options.run};
};

TEST_F(SetupTest, FindsNoStateInANewRun) {
  const RunDirectory run(small.options.run);
  EXPECT_FALSE(resume(run));
}

TEST_F(ResumeTest, ResumesFromTheLatestCheckpoint) {
  const auto state = resume(run);
  ASSERT_TRUE(state);
  const TrainState written = small.state(30);
  EXPECT_EQ(state->parameters, written.parameters);
  EXPECT_EQ(state->first_moment, written.first_moment);
  EXPECT_EQ(state->second_moment, written.second_moment);
  EXPECT_EQ(manifest_state(*state), manifest_state(written));
}

TEST_F(ResumeTest, ResumesFromTheCheckpointBeforeADamagedOneWithAWarning) {
  fs::resize_file(run.checkpoint(30) + "/optimizer.safetensors", 100);
  write_text(run.checkpoint(20) + "/manifest.json", "{}");
  CaptureStderr();
  const auto state = resume(run);
  const std::string text = GetCapturedStderr();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->counters.step, 10u);
  EXPECT_THAT(text, HasSubstr("step-00000030/optimizer.safetensors: has 100 bytes"));
  EXPECT_THAT(text, HasSubstr("step-00000020/manifest.json: damaged"));
}

TEST_F(ResumeTest, ResumesFromTheCheckpointBeforeOneWithAMissingFile) {
  fs::remove(run.checkpoint(30) + "/model.safetensors");
  fs::remove(run.checkpoint(20) + "/SHA256SUMS");
  CaptureStderr();
  const auto state = resume(run);
  const std::string text = GetCapturedStderr();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->counters.step, 10u);
  EXPECT_THAT(text, HasSubstr("model.safetensors"));
  EXPECT_THAT(text, HasSubstr("SHA256SUMS is missing"));
}

TEST_F(ResumeTest, ResumesFromTheCheckpointBeforeOneThatTheSystemCannotRead) {
  const std::string model = run.checkpoint(30) + "/model.safetensors";
  fs::remove(model);
  fs::create_directory(model);  // reading it fails with an error of the system (EISDIR)
  const std::string sums = run.checkpoint(20) + "/SHA256SUMS";
  fs::remove(sums);
  fs::create_symlink("SHA256SUMS", sums);  // ELOOP
  CaptureStderr();
  const auto state = resume(run);
  const std::string text = GetCapturedStderr();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->counters.step, 10u);
  EXPECT_THAT(text, HasSubstr(run.checkpoint(30)));
  EXPECT_THAT(text, HasSubstr(run.checkpoint(20)));
}

// With good checksums: the manifest was written so.
TEST_F(ResumeTest, ResumesFromTheCheckpointBeforeOneWithAMalformedManifest) {
  const TrainState newest = small.state(40);
  CheckpointFacts facts = small.facts(newest);
  facts.training["state"] = "text";
  write_checkpoint(run.checkpoint(40), facts, small.model.layout(), newest.parameters,
                   moments_of(newest), small.data.vocabulary);
  CaptureStderr();
  const auto state = resume(run);
  const std::string text = GetCapturedStderr();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->counters.step, 30u);
  EXPECT_THAT(text, HasSubstr(run.checkpoint(40)));
}

TEST_F(ResumeTest, FailsWhenNoCheckpointCanBeRead) {
  for (uint64_t step : {10, 20, 30}) fs::remove(run.checkpoint(step) + "/model.safetensors");
  const std::string text = error();
  EXPECT_THAT(text, HasSubstr("3 checkpoints"));
  EXPECT_THAT(text, HasSubstr("step-00000030"));
}

TEST_F(ResumeTest, RefusesDifferentSettingsAndNamesThem) {
  small.options.smoothing = 0.2;
  small.options.optimizer.clip = 5;
  const std::string text = error();
  EXPECT_THAT(text, HasSubstr("smoothing was 0.1 and is 0.2 now"));
  EXPECT_THAT(text, HasSubstr("optimizer.clip was 1.0 and is 5.0 now"));
}

TEST_F(ResumeTest, AcceptsDifferentLimitsAndLogging) {
  small.options.max_steps = 99;
  small.options.eval.every = 5;
  small.options.memory = 5'000'000'000;
  EXPECT_EQ(resume(run)->counters.step, 30u);
}

TEST_F(ResumeTest, RefusesADifferentDataset) {
  small.data.fingerprint = "other";
  EXPECT_THAT(error(), HasSubstr("dataset"));
}

TEST_F(ResumeTest, RefusesADifferentVocabulary) {
  small.data.vocabulary = Vocabulary::from_piece_list("</s>\n<unk>\na\n", "other.vocab");
  EXPECT_THAT(error(), HasSubstr("a vocabulary of 120 pieces but"));
}

TEST_F(ResumeTest, RefusesACheckpointThatNoRunWrote) {
  const TrainState state = small.state(40);
  CheckpointFacts facts = small.facts(state);
  facts.training = {{"averaged", {10, 20}}};
  write_checkpoint(run.checkpoint(40), facts, small.model.layout(), state.parameters, {},
                   small.data.vocabulary);
  EXPECT_THAT(error(), HasSubstr(run.checkpoint(40)));
}

}  // namespace
}  // namespace reigen
