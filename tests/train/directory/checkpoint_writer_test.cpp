// Checkpoints written while training continues hold the state at the time of save().
#include "train/directory/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "support/full_disk.h"
#include "train/small_run.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  // At `step` every number is the step itself.
  static TrainState filled(const SmallRun& small, uint64_t step) {
    TrainState state = small.state(step);
    for (auto* values : {&state.parameters, &state.first_moment, &state.second_moment}) {
      std::fill(values->begin(), values->end(), static_cast<float>(step));
    }
    return state;
  }
  void expect_step(uint64_t step) {
    const TrainState read = read_state(run.checkpoint(step), small.model.layout());
    const TrainState wanted = filled(small, step);
    EXPECT_EQ(manifest_state(read), manifest_state(wanted));
    for (const auto& slice : small.model.layout().slices()) {  // gaps between them are not saved
      EXPECT_EQ(read.parameters[slice.offset], static_cast<float>(step));
      EXPECT_EQ(read.first_moment[slice.offset + slice.size() - 1], static_cast<float>(step));
      EXPECT_EQ(read.second_moment[slice.offset], static_cast<float>(step));
    }
  }

  SmallRun small;
  RunDirectory run{small.options.run};
};

TEST_F(CheckpointWriterTest, WritesTheStateOfTheMomentOfTheCall) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  EXPECT_FALSE(writer.finished());
  EXPECT_FALSE(writer.wait());
  TrainState state = filled(small, 10);
  writer.save(state, small.facts(state));
  std::fill(state.parameters.begin(), state.parameters.end(), -1.0F);  // training continues
  std::fill(state.first_moment.begin(), state.first_moment.end(), -1.0F);
  std::fill(state.second_moment.begin(), state.second_moment.end(), -1.0F);
  state.counters.step = 11;
  const auto record = writer.wait();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->error, "");
  EXPECT_EQ(record->step, 10u);
  EXPECT_EQ(record->path, run.checkpoint(10));
  uint64_t bytes = 0;
  for (const auto& file : read_checkpoint_facts(run.checkpoint(10)).files) bytes += file.bytes;
  EXPECT_EQ(record->bytes, bytes);
  EXPECT_FALSE(writer.finished());  // reported once
  expect_step(10);
  EXPECT_EQ(fs::read_symlink(run.file("last")), "checkpoints/step-00000010");
}

TEST_F(CheckpointWriterTest, NeverReplacesTheTargetOfALink) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  const std::string target = small.dir.path("mine");
  { StagedDirectory(target, false).commit(); }  // looks replaceable
  fs::create_symlink(target, run.checkpoint(10));
  const TrainState state = filled(small, 10);
  writer.save(state, small.facts(state));
  EXPECT_THAT(writer.wait()->error, HasSubstr(run.checkpoint(10) + ": is a symbolic link"));
  EXPECT_FALSE(is_checkpoint(target));
  fs::remove(run.checkpoint(10));
  writer.retry();
  expect_step(10);
}

TEST_F(CheckpointWriterTest, WritesSeveralInSuccessionWithoutMixingThem) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 100);
  for (uint64_t step = 1; step <= 8; ++step) {
    const TrainState state = filled(small, step);
    writer.save(state, small.facts(state));  // waits for the previous one
    if (step > 1) {
      EXPECT_TRUE(is_checkpoint(run.checkpoint(step - 1)));
    }
  }
  EXPECT_EQ(writer.wait()->step, 8u);
  for (uint64_t step = 1; step <= 8; ++step) expect_step(step);
}

// As on a GPU: an immediate copy, fetched on the writer's thread.
class Elsewhere : public StateSource {
 public:
  explicit Elsewhere(TrainState state) : state_(std::move(state)) {}
  TrainState& state() { return state_; }
  void begin() override { copy_ = state_; }
  void complete(TrainState& into) override {
    if (fail) throw DeviceError("the GPU fell off the bus");
    into.parameters = copy_.parameters;
    into.first_moment = copy_.first_moment;
    into.second_moment = copy_.second_moment;
  }
  bool fail = false;

 private:
  TrainState state_;
  TrainState copy_;
};

TEST_F(CheckpointWriterTest, TakesParametersFromTheirSource) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  Elsewhere elsewhere(filled(small, 7));
  TrainState counters;
  counters.counters = elsewhere.state().counters;
  writer.save(counters, small.facts(elsewhere.state()), &elsewhere);
  std::fill(elsewhere.state().parameters.begin(), elsewhere.state().parameters.end(), -1.0F);
  EXPECT_EQ(writer.wait()->error, "");
  expect_step(7);
}

TEST_F(CheckpointWriterTest, LeavesTheLastCheckpointWhenTheSourceFails) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  Elsewhere elsewhere(filled(small, 7));
  writer.save(elsewhere.state(), small.facts(elsewhere.state()), &elsewhere);
  writer.wait();
  elsewhere.state() = filled(small, 8);
  elsewhere.fail = true;
  writer.save(elsewhere.state(), small.facts(elsewhere.state()), &elsewhere);
  EXPECT_THAT(writer.wait()->error, HasSubstr("fell off the bus"));
  expect_step(7);
  EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, 7u);
}

TEST_F(CheckpointWriterTest, FinishesTheCheckpointUnderWayBeforeItsEnd) {
  {
    CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
    const TrainState state = filled(small, 5);
    writer.save(state, small.facts(state));
  }
  expect_step(5);
}

TEST_F(CheckpointWriterTest, RetainsTheLatestAndTheBest) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 2);
  for (uint64_t step = 1; step <= 6; ++step) {
    TrainState state = filled(small, step);
    state.counters.best_loss = Best{std::min<uint64_t>(step, 2), 1.5};
    if (step >= 3) state.counters.best_bleu = Best{3, 20};
    writer.save(state, small.facts(state));
    EXPECT_EQ(writer.wait()->error, "");
  }
  EXPECT_THAT(run.checkpoints(), ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(read_checkpoint_facts(run.file("best-loss")).step, 2u);
  EXPECT_EQ(read_checkpoint_facts(run.file("best-bleu")).step, 3u);
  EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, 6u);
}

TEST_F(CheckpointWriterTest, DoesNotLinkABestCheckpointThatWasNeverWritten) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 2);
  TrainState state = filled(small, 4);
  state.counters.best_loss = Best{3, 1.5};  // the disk was full at that step
  writer.save(state, small.facts(state));
  EXPECT_EQ(writer.wait()->error, "");
  EXPECT_FALSE(fs::is_symlink(run.file("best-loss")));
}

TEST_F(CheckpointWriterTest, ReportsAFailureAndLeavesEarlierCheckpointsAsTheyWere) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 1);
  const TrainState first = filled(small, 1);
  writer.save(first, small.facts(first));
  EXPECT_EQ(writer.wait()->error, "");
  const TrainState second = filled(small, 2);
  {
    FullDisk full(2000);
    writer.save(second, small.facts(second));
    const auto record = writer.wait();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->step, 2u);
    EXPECT_THAT(record->error, HasSubstr("step-00000002.partial/model.safetensors: cannot write"));
  }
  EXPECT_THAT(run.checkpoints(), ElementsAre(1));
  EXPECT_EQ(std::distance(fs::directory_iterator(run.file("checkpoints")), {}), 1);
  EXPECT_EQ(read_checkpoint_facts(run.file("last")).step, 1u);
  expect_step(1);
  writer.save(second, small.facts(second));  // succeeds again with free space
  EXPECT_EQ(writer.wait()->error, "");
  expect_step(2);
}

TEST_F(CheckpointWriterTest, WritesAStateThatFailedAgainWhenThereIsRoom) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 1,
                          std::chrono::milliseconds(5));
  {
    FullDisk full(2000);
    const TrainState state = filled(small, 2);
    writer.save(state, small.facts(state));
    EXPECT_NE(writer.wait()->error, "");
    EXPECT_TRUE(writer.unsaved());
    writer.retry();
    EXPECT_TRUE(writer.unsaved());
    EXPECT_FALSE(writer.wait());  // the same failure is reported once
  }
  std::optional<CheckpointRecord> record;
  while (!record) record = writer.wait();
  EXPECT_EQ(record->error, "");
  EXPECT_EQ(record->step, 2u);
  EXPECT_FALSE(writer.unsaved());
  expect_step(2);
}

TEST_F(CheckpointWriterTest, AttemptsAgainOnlyTheLatestState) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 9);
  {
    FullDisk full(2000);
    for (uint64_t step : {2, 3}) {
      const TrainState state = filled(small, step);
      writer.save(state, small.facts(state));
      EXPECT_NE(writer.wait()->error, "");
    }
  }
  writer.retry();
  EXPECT_EQ(writer.wait()->step, 3u);
  EXPECT_THAT(run.checkpoints(), ElementsAre(3));
  writer.retry();  // nothing to do
  EXPECT_FALSE(writer.wait());
}

TEST_F(CheckpointWriterTest, AttemptsNothingAgainWhoseSourceFailed) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  Elsewhere elsewhere(filled(small, 7));
  elsewhere.fail = true;
  writer.save(elsewhere.state(), small.facts(elsewhere.state()), &elsewhere);
  EXPECT_NE(writer.wait()->error, "");
  EXPECT_FALSE(writer.unsaved());
}

TEST_F(CheckpointWriterTest, KnowsTheBytesOfAState) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  const TrainState state = filled(small, 7);
  writer.save(state, small.facts(state));
  const uint64_t written = writer.wait()->bytes;
  const CheckpointWriter::Room room = writer.room();
  EXPECT_EQ(room.needed, 3 * sizeof(float) * small.model.layout().parameters());
  EXPECT_LT(room.needed, written);  // it never asks for more than is needed
  EXPECT_TRUE(room.enough());
}

TEST_F(CheckpointWriterTest, WritesToTheNewPlaceOfAMovedRun) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  const std::string before = run.path();
  fs::rename(before, small.dir.path("moved"));
  testing::internal::CaptureStderr();
  const TrainState state = filled(small, 7);
  writer.save(state, small.facts(state));
  EXPECT_EQ(writer.wait()->error, "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(before));
  EXPECT_EQ(run.path(), small.dir.path("moved"));
  EXPECT_FALSE(path_exists(before));
  expect_step(7);
}

TEST_F(CheckpointWriterTest, WritesNothingToThePathOfARunThatMovedAfterTheCall) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  const TrainState state = filled(small, 7);
  {
    FullDisk full(2000);
    writer.save(state, small.facts(state));
    EXPECT_NE(writer.wait()->error, "");
  }
  const std::string before = run.path();
  fs::remove_all(before);
  writer.retry();
  EXPECT_THAT(writer.wait()->error, HasSubstr("was removed"));
  EXPECT_FALSE(path_exists(before));
}

TEST_F(CheckpointWriterTest, ReplacesTheCheckpointOfARepeatedStep) {
  CheckpointWriter writer(run, small.model.layout(), small.data.vocabulary, 3);
  TrainState state = filled(small, 2);
  state.parameters[0] = 99;
  writer.save(state, small.facts(state));
  EXPECT_EQ(writer.wait()->error, "");
  state = filled(small, 2);
  writer.save(state, small.facts(state));
  EXPECT_EQ(writer.wait()->error, "");
  expect_step(2);
}

}  // namespace
}  // namespace reigen
