// Runs that begin with the weights of a checkpoint: values taken from it, and refused checkpoints.
#include "train/run/starting_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "data/prepare/prepare.h"
#include "support/sample_data.h"
#include "train/small_run.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class StartingPointTest : public ::testing::Test {
 protected:
  StartingPointTest() {
    small.write(small.state(7), from);
    options = small.options;
    options.tune.from = from;
    options.tune.old_data = kNoOldData;
    options.given = std::set<std::string>{};
  }

  template <class E>
  std::string error() {
    try {
      starting_state(with_starting_point(options), small.model, small.data);
    } catch (const E& e) {
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  // A second dataset of 200 pairs, in a vocabulary of its own unless one is given.
  std::string other_data(const std::string& vocabulary = "") {
    PrepareOptions prepared = sample_options(write_sample_corpus(small.dir.path(), "c", 200),
                                             small.dir.path() + "/other");
    prepared.valid = {write_sample_corpus(small.dir.path(), "d", 10)};
    prepared.vocab.file = vocabulary;
    prepare(prepared);
    return prepared.output;
  }

  SmallRun small;
  const std::string from = small.dir.path() + "/from";
  TrainOptions options;
};

TEST_F(StartingPointTest, GivesWeightsWithFreshMomentsAndCounters) {
  const TrainState state = starting_state(options, small.model, small.data);
  EXPECT_EQ(state.parameters, small.state(7).parameters);
  EXPECT_EQ(state.first_moment, std::vector<float>(state.parameters.size()));
  EXPECT_EQ(state.second_moment, state.first_moment);
  EXPECT_EQ(state.counters.step, 0u);
  EXPECT_EQ(state.counters.updates, 0u);
}

TEST_F(StartingPointTest, IsRecordedWithItsPathAndChecksum) {
  const TrainState state = starting_state(options, small.model, small.data);
  ASSERT_TRUE(state.choices.start);
  EXPECT_EQ(state.choices.start->path, fs::canonical(from));
  EXPECT_EQ(state.choices.start->sha256, sha256_of_file(from + "/manifest.json"));
  EXPECT_EQ(state.choices.start->step, 7u);
  TrainState read;
  read_manifest_state(manifest_state(state), read);
  EXPECT_EQ(manifest_state(read), manifest_state(state));
}

TEST_F(StartingPointTest, ContinuesTheOptimizerWhereAsked) {
  options.tune.optimizer = true;
  const TrainState state = starting_state(options, small.model, small.data);
  EXPECT_EQ(state.first_moment, small.state(7).first_moment);
  EXPECT_EQ(state.second_moment, small.state(7).second_moment);
  EXPECT_EQ(state.counters.updates, 7u);
  EXPECT_EQ(state.counters.step, 0u);
}

TEST_F(StartingPointTest, RefusesMomentsOfADifferentOptimizer) {
  options.tune.optimizer = true;
  options.optimizer.kind = OptimizerKind::kMuon;
  EXPECT_THAT(error<ConfigError>(), HasSubstr("optimizer.kind adam"));
}

TEST_F(StartingPointTest, HasTheSizesOfTheCheckpoint) {
  options.model = sizes_of_preset();
  const TrainOptions with = with_starting_point(options);
  EXPECT_EQ(model_json(with.model), model_json(small.options.model));
  options.given = std::set<std::string>{"model.max-length"};
  options.model.max_length = 200;  // a sinusoid has a value there, too
  EXPECT_EQ(with_starting_point(options).model.max_length, 200);
}

TEST_F(StartingPointTest, RefusesAGivenSizeThatIsNotTheCheckpoints) {
  options.given = std::set<std::string>{"model.width"};
  EXPECT_NO_THROW(with_starting_point(options));
  options.model.width = 32;
  EXPECT_THAT(error<ConfigError>(), HasSubstr("model.width is 32"));
  options.given = std::set<std::string>{"preset"};
  options.model = sizes_of_preset();
  options.preset = "tiny";
  EXPECT_THAT(error<ConfigError>(), HasSubstr("--preset tiny"));
  options.given = std::set<std::string>{"model.output-bias"};
  options.model.output_bias = true;
  EXPECT_THAT(error<ConfigError>(), HasSubstr("model.output-bias"));
}

TEST_F(StartingPointTest, RefusesADatasetWithADifferentVocabulary) {
  options.data = other_data();
  EXPECT_THAT(error<CheckpointError>(), HasSubstr("--vocab " + from));
}

TEST_F(StartingPointTest, FindsTheDatasetOfTheStartingPoint) {
  options.tune.old_data = "";
  EXPECT_EQ(with_starting_point(options).tune.old_data, kNoOldData);  // it is the run's own
  options.data = other_data(from);
  EXPECT_EQ(with_starting_point(options).tune.old_data, small.options.data);
  fs::rename(small.options.data, small.options.data + "-away");
  EXPECT_EQ(with_starting_point(options).tune.old_data, kNoOldData);
}

TEST_F(StartingPointTest, OpensAValidationSetOfTheSameVocabularyOnly) {
  EXPECT_FALSE(open_old_valid(options, small.data));
  options.tune.old_data = other_data(from);
  EXPECT_EQ(open_old_valid(options, small.data)->pairs.sources.size(), 10u);
  fs::remove_all(options.tune.old_data);
  options.tune.old_data = other_data();
  EXPECT_THROW(open_old_valid(options, small.data), DataError);
}

}  // namespace
}  // namespace reigen
