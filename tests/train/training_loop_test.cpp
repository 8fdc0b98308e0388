// Whole attempts in this process: what the loop does after which step, and how it ends.
#include "train/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/terminal.h"
#include "dist/members/job_fixture.h"
#include "train/run/decay_request.h"
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

class EveryOptimizer : public TrainingLoopTest,
                       public ::testing::WithParamInterface<OptimizerKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer,
                         ::testing::Values(OptimizerKind::kAdam, OptimizerKind::kMuon));

TEST_P(EveryOptimizer, TwoAttemptsGiveTheBitsOfOne) {
  options.optimizer.kind = GetParam();
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
  EXPECT_EQ(resumed.first_moment, whole.first_moment);
  EXPECT_EQ(resumed.second_moment, whole.second_moment);
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1, 2, 3, 4, 5, 6));
}

// Asked of a run that has reached its limit.
TEST_F(TrainingLoopTest, ARequestedDecayEndsTheRunAndResumesExactly) {
  options.max_steps = 4;
  options.eval.every = 0;
  options.checkpoint.every = 1;
  options.checkpoint.keep = 10;
  options.schedule = {.kind = ScheduleKind::kFixed, .rate = 0.004};
  RunDirectory run(options.run);
  attempt(run);
  request_decay(options.run, 3);
  const auto parts = attempt(run);
  EXPECT_EQ(parts->state.counters.step, 7u);
  std::vector<double> rates;
  for (const Json& step : log_records(options.run, "step")) {
    rates.push_back(step.at("rate").get<double>());
  }
  ASSERT_EQ(rates.size(), 7u);
  for (size_t i = 4; i < 7; ++i) {
    EXPECT_NEAR(rates[i], 0.001 * static_cast<double>(7 - i), 1e-15);
  }
  EXPECT_EQ(log_records(options.run, "end").at(1).at("reason"), text_of(StopReason::kDecayed));
  const Json record = log_records(options.run, "decay").at(0);
  EXPECT_EQ(record.at("step"), 4);
  EXPECT_EQ(record.at("steps"), 3);
  EXPECT_EQ(record.at("cause"), "request");
  EXPECT_EQ(decay_request(options.run), 0u);
  EXPECT_EQ(attempt(run)->state.counters.step, 7u) << "the run is over";
  // Back in the middle of the decay: the same bits again.
  const TrainState whole = read_state(run.checkpoint(7), parts->model.layout());
  for (uint64_t step : {6, 7}) std::filesystem::remove_all(run.checkpoint(step));
  EXPECT_EQ(attempt(run)->state.counters.step, 7u);
  const TrainState again = read_state(run.checkpoint(7), parts->model.layout());
  EXPECT_EQ(again.parameters, whole.parameters);
  EXPECT_EQ(again.choices.decay.begin, 4u);
  // A new limit: the run goes on by its schedule.
  options.max_steps = 9;
  EXPECT_EQ(attempt(run)->state.counters.step, 9u);
  EXPECT_EQ(log_records(options.run, "step").at(8).at("rate"), 0.004);
}

TEST_F(TrainingLoopTest, AStalledScoreBeginsTheDecayWithoutALimit) {
  options.max_steps = 0;
  options.eval.every = 2;
  options.eval.patience = 2;
  options.schedule = {.kind = ScheduleKind::kWsd, .rate = 1e-12, .warmup_steps = 1};
  options.schedule.decay_steps = 3;
  RunDirectory run(options.run);
  const auto parts = attempt(run);
  const std::vector<Json> decays = log_records(options.run, "decay");
  ASSERT_EQ(decays.size(), 1u);
  EXPECT_EQ(decays[0].at("cause"), "stalled");
  const auto begin = decays[0].at("step").get<uint64_t>();
  EXPECT_GE(begin, 4u);
  EXPECT_EQ(parts->state.counters.step, begin + 3);
  EXPECT_EQ(log_records(options.run, "end").at(0).at("reason"), text_of(StopReason::kDecayed));
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
