// The numbers of a run through JSON and through a checkpoint: every one of them, to the last bit.
#include "optim/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

Counters full_counters() {
  Counters c;
  c.step = 1;
  c.updates = 2;
  c.cursor = {3, 4};
  c.pairs = 5;
  c.source_tokens = 6;
  c.target_tokens = UINT64_MAX;
  c.skipped = 8;
  c.skipped_in_row = 9;
  c.evaluated_step = 10;
  c.evaluations_without_gain = 11;
  c.best_loss = Best{12, std::nextafter(1.0 / 3, 1)};
  c.best_bleu = Best{13, 0.1 + 0.2};
  c.seconds = 1e-300;
  c.step_seconds = 123456789.12345679;
  c.attempt = 14;
  c.micro_tokens = 15;
  c.threads = 16;
  return c;
}

// Through text, as a manifest holds it.
Counters through_json(const Counters& c) {
  return counters_from_json(Json::parse(pretty(to_json(c))));
}

TEST(Counters, ReadBackExactlyFromJson) {
  const Counters wanted = full_counters();
  const Counters read = through_json(wanted);
  EXPECT_EQ(read.step, 1u);
  EXPECT_EQ(read.updates, 2u);
  EXPECT_EQ(read.cursor, (Cursor{3, 4}));
  EXPECT_EQ(read.pairs, 5u);
  EXPECT_EQ(read.source_tokens, 6u);
  EXPECT_EQ(read.target_tokens, UINT64_MAX);
  EXPECT_EQ(read.skipped, 8u);
  EXPECT_EQ(read.skipped_in_row, 9u);
  EXPECT_EQ(read.evaluated_step, 10u);
  EXPECT_EQ(read.evaluations_without_gain, 11u);
  ASSERT_TRUE(read.best_loss && read.best_bleu);
  EXPECT_EQ(read.best_loss->step, 12u);
  EXPECT_EQ(read.best_loss->value, wanted.best_loss->value);
  EXPECT_EQ(read.best_bleu->step, 13u);
  EXPECT_EQ(read.best_bleu->value, wanted.best_bleu->value);
  EXPECT_EQ(read.seconds, 1e-300);
  EXPECT_EQ(read.step_seconds, 123456789.12345679);
  EXPECT_EQ(read.attempt, 14u);
  EXPECT_EQ(read.micro_tokens, 15u);
  EXPECT_EQ(read.threads, 16u);
}

TEST(Counters, ReadBackWithoutABest) {
  const Counters read = through_json({});
  EXPECT_FALSE(read.best_loss);
  EXPECT_FALSE(read.best_bleu);
  EXPECT_EQ(to_json(read), to_json(Counters{}));
}

TEST(Counters, AreRefusedWhenOneIsMissingOrOfAnotherType) {
  const Json whole = to_json(full_counters());
  for (const auto& [key, value] : whole.items()) {
    Json less = whole;
    less.erase(key);
    EXPECT_THROW(counters_from_json(less), Json::exception) << key;
    Json other = whole;
    other[key] = value.is_string() ? Json(16) : Json("many");
    EXPECT_THROW(counters_from_json(other), Json::exception) << key;
  }
}

class ReadState : public ::testing::Test {
 protected:
  std::string write(const Json& training, bool with_moments = true) {
    CheckpointFacts facts = small.facts(1);
    facts.training = training;
    const std::string path = dir.path("a");
    write_checkpoint(path, facts, small.model.layout(), small.parameters,
                     with_moments ? small.moments() : std::vector<NamedBuffer>{}, small.vocabulary,
                     true);
    return path;
  }
  std::string error_of(const std::string& path) {
    try {
      read_state(path, small.model.layout());
    } catch (const CheckpointError& e) {
      return e.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  TempDir dir;
  SmallModel small{tiny_variant("post")};
};

TEST_F(ReadState, GivesParametersMomentsAndCountersBack) {
  const std::string path = write({{"state", to_json(full_counters())}});
  const TrainState state = read_state(path, small.model.layout());
  EXPECT_EQ(state.parameters, small.parameters);
  EXPECT_EQ(state.first_moment, small.first);
  EXPECT_EQ(state.second_moment, small.second);
  EXPECT_EQ(to_json(state.counters), to_json(full_counters()));
}

TEST_F(ReadState, NamesTheMomentsOfAStateAsItReadsThem) {
  TrainState state;
  state.first_moment = small.first;
  state.second_moment = small.second;
  const auto named = moments_of(state);
  ASSERT_EQ(named.size(), 2u);
  for (size_t m = 0; m < 2; ++m) EXPECT_EQ(named[m].prefix, small.moments()[m].prefix);
}

TEST_F(ReadState, RefusesACheckpointThatCannotBeTrainedOn) {
  EXPECT_THAT(error_of(write({{"state", to_json(full_counters())}}, false)),
              HasSubstr("has no optimizer.safetensors"));
  EXPECT_THAT(error_of(write(Json::object())), HasSubstr("its state is incomplete"));
  EXPECT_THAT(error_of(write({{"state", {{"step", 1}}}})), HasSubstr("its state is incomplete"));
}

TEST_F(ReadState, ChecksEveryFileFirst) {
  const std::string path = write({{"state", to_json(full_counters())}});
  std::filesystem::resize_file(path + "/optimizer.safetensors", 1000);
  EXPECT_THAT(error_of(path), HasSubstr("optimizer.safetensors: has 1,000 bytes instead of"));
}

}  // namespace
}  // namespace reigen
