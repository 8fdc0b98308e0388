// Whole attempts in this process: the actions of the loop after each step, and its end.
#include "train/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/terminal.h"
#include "dist/members/job_fixture.h"
#include "train/small_run.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TrainingLoopTest : public ::testing::Test {
 protected:
  TrainingLoopTest() {
    prepare_small_data(dir.path());
    options = small_train_options(dir.path());
    options.threads = 1;  // the same bits every time
    options.eval.bleu = false;
    set_quiet(true);
  }
  ~TrainingLoopTest() override { set_quiet(false); }

  // One attempt by a single worker; its parts, after the loop.
  std::unique_ptr<AttemptParts> attempt(RunDirectory& run) {
    auto parts = prepare_attempt(options, &run, alone, "test");
    TrainingLoop(*parts).run();
    return parts;
  }

  TempDir dir;
  TrainOptions options;
  Job alone;
};

TEST_F(TrainingLoopTest, EvaluatesAndSavesWhenDueAndAtTheEnd) {
  options.max_steps = 7;
  options.eval.every = 4;
  options.checkpoint.every = 3;
  RunDirectory run(options.run);
  EXPECT_EQ(attempt(run)->state.counters.step, 7u);
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(log_steps(options.run, "evaluation"), ElementsAre(4, 7));
  // After an evaluation too, so that a checkpoint has its scores.
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(3, 4, 6, 7));
  const std::vector<Json> ends = log_records(options.run, "end");
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].at("reason"), text_of(StopReason::kMaxSteps));
  EXPECT_EQ(ends[0].at("step"), 7);
  EXPECT_EQ(run.linked("last"), 7u);
}

TEST_F(TrainingLoopTest, TwoAttemptsGiveTheBitsOfOne) {
  options.max_steps = 6;
  TrainState whole;
  {
    RunDirectory run(options.run);
    const auto parts = attempt(run);
    whole = read_state(run.checkpoint(6), parts->model.layout());
  }
  options.run = dir.path("parts");
  RunDirectory run(options.run);
  options.max_steps = 2;
  EXPECT_FALSE(attempt(run)->facts.resumed);
  options.max_steps = 6;
  const auto parts = attempt(run);
  EXPECT_TRUE(parts->facts.resumed);
  EXPECT_EQ(parts->state.counters.attempt, 2u);
  const TrainState resumed = read_state(run.checkpoint(6), parts->model.layout());
  EXPECT_EQ(resumed.parameters, whole.parameters);
  EXPECT_EQ(resumed.second_moment, whole.second_moment);
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TrainingLoopTest, ARunAtItsLimitTakesNoStep) {
  options.max_steps = 2;
  RunDirectory run(options.run);
  attempt(run);
  EXPECT_EQ(attempt(run)->state.counters.step, 2u);
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1, 2));
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(2));
}

TEST_F(TrainingLoopTest, LossesThatAreNotFiniteEndTheRunWithoutACheckpoint) {
  options.optimizer.max_skipped = 3;
  options.checkpoint.every = 1;
  RunDirectory run(options.run);
  const auto parts = prepare_attempt(options, &run, alone, "test");
  for (float& value : parts->state.parameters) value = NAN;
  EXPECT_THROW(TrainingLoop(*parts).run(), DivergedError);
  EXPECT_EQ(parts->state.counters.skipped_in_row, 3u);
  EXPECT_EQ(parts->state.counters.updates, 0u);
  EXPECT_THAT(run.checkpoints(), IsEmpty());
  EXPECT_EQ(log_records(options.run, "end").at(0).at("reason"), "diverged");
}

TEST_F(TrainingLoopTest, AllRanksStopAfterTheSameStepWhenTheTimeOfRankZeroIsOver) {
  options.max_time = 1e-6;
  RunDirectory run(options.run);
  with_job(2, [&](Job& job) {
    const auto parts = prepare_attempt(options, job.first() ? &run : nullptr, job, "test");
    EXPECT_EQ(parts->writer != nullptr, job.first());
    TrainingLoop(*parts).run();
    EXPECT_EQ(parts->state.counters.step, 1u) << "rank " << job.rank();
  });
  EXPECT_EQ(log_records(options.run, "end").at(0).at("reason"), text_of(StopReason::kMaxTime));
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1));
  EXPECT_THAT(log_steps(options.run, "spans", 1), ElementsAre(1));
}

}  // namespace
}  // namespace reigen
