// Counters and choices written as JSON and in a checkpoint read back to the last bit.
#include "optim/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json/json_view.h"
#include "model/quantized_parameters.h"
#include "support/small_model.h"
#include "support/teacher_forced.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

TrainState full_state() {
  TrainState state;
  Counters& c = state.counters;
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
  c.best_chrf = Best{14, 50.5};
  c.best_metrics = {{"COMET", Best{15, 0.75}}, {"x.y", Best{16, -3}}};
  c.seconds = 1e-300;
  c.step_seconds = 123456789.12345679;
  c.attempt = 14;
  c.local_steps = 15;
  c.loss_scale = {1024, 2048, 16, -3.5, 0.25, 17};
  Choices& choices = state.choices;
  choices.micro_tokens = 18;
  choices.threads = 19;
  choices.precision = "bf16";
  choices.workers = 20;
  choices.bucket = 21;
  choices.compress = "powersgd:4";
  choices.compress_warmup = 22;
  choices.worker_states_of = "int4";
  choices.decay = {23, 24};
  choices.decay_limit = 25;
  return state;
}

// Through text, as in a manifest.
TrainState through_json(const TrainState& state) {
  TrainState read;
  read_manifest_state(Json::parse(pretty(manifest_state(state))), read);
  return read;
}

TEST(ManifestState, ReadsBackExactly) {
  const TrainState wanted = full_state();
  const TrainState read = through_json(wanted);
  const Counters& c = read.counters;
  EXPECT_EQ(c.step, 1u);
  EXPECT_EQ(c.updates, 2u);
  EXPECT_EQ(c.cursor, (Cursor{3, 4}));
  EXPECT_EQ(c.pairs, 5u);
  EXPECT_EQ(c.source_tokens, 6u);
  EXPECT_EQ(c.target_tokens, UINT64_MAX);
  EXPECT_EQ(c.skipped, 8u);
  EXPECT_EQ(c.skipped_in_row, 9u);
  EXPECT_EQ(c.evaluated_step, 10u);
  EXPECT_EQ(c.evaluations_without_gain, 11u);
  ASSERT_TRUE(c.best_loss && c.best_bleu);
  EXPECT_EQ(c.best_loss->step, 12u);
  EXPECT_EQ(c.best_loss->value, wanted.counters.best_loss->value);
  EXPECT_EQ(c.best_bleu->step, 13u);
  EXPECT_EQ(c.best_bleu->value, wanted.counters.best_bleu->value);
  EXPECT_EQ(c.seconds, 1e-300);
  EXPECT_EQ(c.step_seconds, 123456789.12345679);
  EXPECT_EQ(c.attempt, 14u);
  EXPECT_EQ(c.local_steps, 15u);
  EXPECT_EQ(c.loss_scale.scale, 1024);
  EXPECT_EQ(c.loss_scale.ceiling, 2048);
  EXPECT_EQ(c.loss_scale.good_steps, 16u);
  EXPECT_EQ(c.loss_scale.mean, -3.5);
  EXPECT_EQ(c.loss_scale.variance, 0.25);
  EXPECT_EQ(c.loss_scale.seen, 17u);
  EXPECT_EQ(read.choices.micro_tokens, 18u);
  EXPECT_EQ(read.choices.threads, 19u);
  EXPECT_EQ(read.choices.precision, "bf16");
  EXPECT_EQ(read.choices.workers, 20u);
  EXPECT_EQ(read.choices.bucket, 21u);
  EXPECT_EQ(read.choices.compress, "powersgd:4");
  EXPECT_EQ(read.choices.compress_warmup, 22u);
  EXPECT_EQ(read.choices.worker_states_of, "int4");
  EXPECT_EQ(read.choices.decay.begin, 23u);
  EXPECT_EQ(read.choices.decay.steps, 24u);
  EXPECT_EQ(read.choices.decay_limit, 25u);
}

TEST(ManifestState, ReadsBackWithoutABest) {
  const TrainState read = through_json({});
  EXPECT_FALSE(read.counters.best_loss);
  EXPECT_FALSE(read.counters.best_bleu);
  EXPECT_EQ(manifest_state(read), manifest_state(TrainState{}));
}

TEST(ManifestState, RemembersWhetherTheAverageWasBetter) {
  TrainState state;
  for (bool better : {true, false}) {
    state.counters.average_better = better;
    EXPECT_EQ(through_json(state).counters.average_better, better);
  }
}

TEST(ManifestState, RefusesANameOfAMetricThatIsAPath) {
  for (const char* name : {"x/../../y", "", "../x", "loss"}) {
    Json json = manifest_state(full_state());
    json["best_metrics"] = {{name, {{"step", 1}, {"value", 1.0}}}};
    TrainState state;
    EXPECT_THROW(read_manifest_state(json, state), FieldError) << name;
  }
}

TEST(ManifestState, OfVersion01HasNeitherDecayNorAverage) {
  Json old = manifest_state(full_state());
  old.erase("decay");
  for (const char* key : {"average_better", "best_chrf", "best_metrics", "starting_point"}) {
    old.erase(key);
  }
  TrainState state;
  read_manifest_state(old, state);
  EXPECT_FALSE(state.choices.decay.active());
  EXPECT_FALSE(state.counters.average_better);
}

TEST(ManifestState, IsRefusedWhenAFieldIsMissingOrOfADifferentType) {
  const Json whole = manifest_state(full_state());
  const std::set<std::string> since_0_2 = {"decay",        "average_better", "best_chrf",
                                           "best_metrics", "starting_point", "shares"};
  for (const auto& [key, value] : whole.items()) {
    TrainState state;
    Json less = whole;
    less.erase(key);
    if (!since_0_2.contains(key)) {
      EXPECT_THROW(read_manifest_state(less, state), FieldError) << key;
    }
    Json other = whole;
    other[key] = value.is_string() ? Json(16) : Json("many");
    EXPECT_THROW(read_manifest_state(other, state), FieldError) << key;
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

TEST_F(ReadState, ReturnsParametersMomentsAndCounters) {
  const std::string path = write({{"state", manifest_state(full_state())}});
  const TrainState state = read_state(path, small.model.layout());
  EXPECT_EQ(state.parameters, small.parameters);
  EXPECT_EQ(state.first_moment, small.first);
  EXPECT_EQ(state.second_moment, small.second);
  EXPECT_EQ(manifest_state(state), manifest_state(full_state()));
}

TEST_F(ReadState, ReturnsTheAverageOfTheParametersWhereThereIsOne) {
  CheckpointFacts facts = small.facts(1);
  facts.training = {{"state", manifest_state(full_state())}};
  const std::string path = dir.path("a");
  write_checkpoint(path, facts, small.model.layout(), small.parameters, small.moments(),
                   small.vocabulary, true, {}, OutputName::kOfUser, small.first);
  const TrainState state = read_state(path, small.model.layout());
  EXPECT_EQ(state.average, small.first);
  EXPECT_EQ(state.parameters, small.parameters);
  EXPECT_TRUE(read_state(write(facts.training), small.model.layout()).average.empty());
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
  EXPECT_THAT(error_of(write({{"state", manifest_state(full_state())}}, false)),
              HasSubstr("optimizer.safetensors"));
  EXPECT_THAT(error_of(write(Json::object())), HasSubstr("training state"));
  EXPECT_THAT(error_of(write({{"state", {{"step", 1}}}})), HasSubstr("training state"));
}

TEST_F(ReadState, ChecksEveryFileFirst) {
  const std::string path = write({{"state", manifest_state(full_state())}});
  std::filesystem::resize_file(path + "/optimizer.safetensors", 1000);
  EXPECT_THAT(error_of(path), HasSubstr("optimizer.safetensors: has 1,000 bytes"));
}

TEST(TrainState, IsNotReadFromAQuantizedCheckpoint) {
  TempDir dir;
  const SmallModel small(tiny_variant("pre"));
  const QuantizedParameters rounded(small.model.layout(), small.parameters);
  write_quantized_checkpoint(dir.path("a"), small.facts(7), small.model.layout(), rounded.tensors(),
                             small.vocabulary, false);
  try {
    read_state(dir.path("a"), small.model.layout());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), HasSubstr("int8"));
  }
}

}  // namespace
}  // namespace reigen
