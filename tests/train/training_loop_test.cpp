// Whole attempts in this process: the actions of the loop after each step, and its end.
#include "train/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <latch>
#include <thread>

#include "base/error.h"
#include "base/terminal.h"
#include "dist/members/job_fixture.h"
#include "train/directory/decay_request.h"
#include "train/run/starting_point.h"
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

TEST_F(TrainingLoopTest, TimeDecidesWhenACheckpointIsWrittenButNotItsBits) {
  constexpr double kNoTime = 1e-12;
  constexpr double kLongTime = 1e6;
  options.max_steps = 4;
  options.eval.every = 0;
  options.checkpoint.every = 3;
  options.checkpoint.keep = 10;
  options.checkpoint.minutes = kLongTime;
  RunDirectory by_steps(options.run);
  const auto parts = attempt(by_steps);
  // The end of a run evaluates, and saves for that reason, too.
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(3, 4));
  options.run = dir.path("timed");
  options.checkpoint.minutes = kNoTime;
  RunDirectory timed(options.run);
  attempt(timed);
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(1, 2, 3, 4));
  for (const uint64_t step : {3, 4}) {
    const TrainState one = read_state(by_steps.checkpoint(step), parts->model.layout());
    const TrainState other = read_state(timed.checkpoint(step), parts->model.layout());
    EXPECT_EQ(one.parameters, other.parameters) << step;
    EXPECT_EQ(one.first_moment, other.first_moment) << step;
    EXPECT_EQ(one.second_moment, other.second_moment) << step;
  }
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
  // A new limit: the run continues by its schedule.
  options.max_steps = 9;
  EXPECT_EQ(attempt(run)->state.counters.step, 9u);
  EXPECT_EQ(log_records(options.run, "step").at(8).at("rate"), 0.004);
}

TEST_F(TrainingLoopTest, ADecayIsRecordedByACheckpointBeforeItsFirstStep) {
  options.max_steps = 4;
  options.eval.every = 0;
  RunDirectory run(options.run);
  attempt(run);
  request_decay(options.run, 3);
  const auto parts = attempt(run);
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(4, 4, 7));
  const TrainState begun = read_state(run.checkpoint(4), parts->model.layout());
  EXPECT_EQ(begun.choices.decay.begin, 4u);
  EXPECT_EQ(begun.choices.decay.steps, 3u);
  // Killed after the first checkpoint of the decay: the same end.
  std::filesystem::remove_all(run.checkpoint(7));
  EXPECT_EQ(attempt(run)->state.counters.step, 7u);
}

TEST_F(TrainingLoopTest, ASecondRequestIsRemovedAndDoesNotRestartTheRun) {
  options.max_steps = 4;
  options.eval.every = 0;
  RunDirectory run(options.run);
  attempt(run);
  request_decay(options.run, 3);
  attempt(run);
  request_decay(options.run, 5);
  EXPECT_EQ(attempt(run)->state.counters.step, 7u);
  EXPECT_EQ(decay_request(options.run), 0u);
  EXPECT_EQ(log_records(options.run, "decay").size(), 1u);
}

TEST_F(TrainingLoopTest, ARequestAfterTheLastStepIsRemoved) {
  options.max_steps = 4;
  RunDirectory run(options.run);
  attempt(run);
  {
    const auto parts = prepare_attempt(options, &run, alone, "test");
    request_decay(options.run, 3);
    parts->writer->finish(4, text_of(StopReason::kMaxSteps), 0);
  }
  EXPECT_EQ(decay_request(options.run), 0u);
  EXPECT_EQ(attempt(run)->state.counters.step, 4u);
}

TEST_F(TrainingLoopTest, ARequestEndsARunThatReachedItsEpochsOrItsTime) {
  options.max_steps = 0;
  options.eval.every = 0;
  options.max_epochs = 0.1;
  options.schedule = {.kind = ScheduleKind::kFixed, .rate = 0.004};
  RunDirectory run(options.run);
  const uint64_t before = attempt(run)->state.counters.step;
  EXPECT_EQ(log_records(options.run, "end").at(0).at("reason"), text_of(StopReason::kMaxEpochs));
  options.max_time = 1e-6;
  request_decay(options.run, 3);
  EXPECT_EQ(attempt(run)->state.counters.step, before + 3);
  EXPECT_EQ(log_records(options.run, "end").at(1).at("reason"), text_of(StopReason::kDecayed));
}

class StalledTest : public TrainingLoopTest {
 protected:
  // A rate so small that no score improves; a stall begins a decay of three steps.
  StalledTest() {
    options.max_steps = 0;
    options.eval.every = 2;
    options.eval.patience = 2;
    options.schedule = {.kind = ScheduleKind::kWsd, .rate = 1e-12, .warmup_steps = 1};
    options.schedule.decay_steps = 3;
  }
  // Step at which the only decay began.
  uint64_t begin() const {
    const std::vector<Json> decays = log_records(options.run, "decay");
    EXPECT_EQ(decays.size(), 1u);
    EXPECT_EQ(decays.at(0).at("cause"), "stalled");
    return decays.at(0).at("step").get<uint64_t>();
  }
  std::string end(size_t attempt) const {
    return log_records(options.run, "end").at(attempt).at("reason");
  }
};

TEST_F(StalledTest, BeginsTheDecayWithoutALimit) {
  RunDirectory run(options.run);
  const auto parts = attempt(run);
  EXPECT_GE(begin(), 4u);
  EXPECT_EQ(parts->state.counters.step, begin() + 3);
  EXPECT_EQ(end(0), text_of(StopReason::kDecayed));
}

TEST_F(StalledTest, BeginsTheDecayBeforeItsPlannedStep) {
  options.max_steps = 1000;
  RunDirectory run(options.run);
  const auto parts = attempt(run);
  EXPECT_EQ(parts->state.counters.step, begin() + 3);
  EXPECT_EQ(end(0), text_of(StopReason::kDecayed));
}

TEST_F(StalledTest, BeginsTheDecayOfARunThatIsResumedWithLessPatience) {
  options.eval.patience = 100;
  options.max_steps = 8;
  RunDirectory run(options.run);
  EXPECT_GE(attempt(run)->state.counters.evaluations_without_gain, 2u);
  EXPECT_EQ(end(0), text_of(StopReason::kMaxSteps));
  options.eval.patience = 2;
  options.max_steps = 1000;
  EXPECT_EQ(attempt(run)->state.counters.step, 11u);
  EXPECT_EQ(begin(), 8u);
  EXPECT_EQ(end(1), text_of(StopReason::kDecayed));
}

TEST_F(StalledTest, ANewLimitCancelsTheDecayAndForgetsTheStall) {
  RunDirectory run(options.run);
  const uint64_t before = attempt(run)->state.counters.step;
  options.max_steps = static_cast<int64_t>(before) + 4;
  const auto parts = attempt(run);
  EXPECT_EQ(parts->state.counters.step, before + 4);
  EXPECT_EQ(end(1), text_of(StopReason::kMaxSteps));
  const std::vector<Json> decays = log_records(options.run, "decay");
  ASSERT_EQ(decays.size(), 2u);
  EXPECT_EQ(decays[1].at("step"), before);
  EXPECT_EQ(decays[1].at("steps"), 0);
  EXPECT_EQ(decays[1].at("cause"), "max-steps");
}

TEST_F(TrainingLoopTest, WsdDecaysAtTheEndOfItsEpochs) {
  options.max_steps = 0;
  options.max_epochs = 1;
  options.eval.every = 0;
  options.schedule = {.kind = ScheduleKind::kWsd, .rate = 0.004, .warmup_steps = 1};
  options.schedule.decay_steps = 3;
  RunDirectory run(options.run);
  const auto parts = attempt(run);
  EXPECT_TRUE(parts->facts.warnings.empty());
  EXPECT_EQ(log_records(options.run, "end").at(0).at("reason"), text_of(StopReason::kMaxEpochs));
  const std::vector<Json> steps = log_records(options.run, "step");
  ASSERT_GT(steps.size(), 4u);
  for (size_t left = 0; left < 4; ++left) {
    const double rate = steps.at(steps.size() - 1 - left).at("rate").get<double>();
    EXPECT_NEAR(rate, 0.001 * static_cast<double>(left + 1), 1e-15);
  }
}

TEST_F(TrainingLoopTest, WsdThatMayEndByItsTimeIsWarnedAbout) {
  options.max_steps = 0;
  options.max_time = 1e-6;
  options.schedule = {.kind = ScheduleKind::kWsd, .rate = 0.004, .warmup_steps = 1};
  RunDirectory run(options.run);
  EXPECT_EQ(attempt(run)->facts.warnings.size(), 1u);
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

// The loss falls into the end of a run, when all know that it is saved: those who still wait for
// this worker learn that it has left.
TEST_F(TrainingLoopTest, AWorkerWhoseRunIsDoneLeavesInOrderAlsoWhenTheOthersFail) {
  options.max_steps = 2;
  RunDirectory run(options.run);
  attempt(run);
  with_elastic_job(3, [&](Job& job) {
    const int number = job.rank();
    const auto parts = prepare_attempt(options, job.first() ? &run : nullptr, job, "test");
    if (number == 0) return TrainingLoop(*parts).run();
    // The run is at its limit. Worker 0 asks whether a decay is requested, makes sure that the run
    // is saved, and asks for the logs.
    job.broadcast(uint64_t{0});
    job.barrier();
    job.barrier();
    std::vector<double> lengths = {0.0, 1.0, 1.0};
    if (number == 1) {
      job.sum(lengths);
      job.membership()->group().close();
    } else {
      EXPECT_THROW(
          {
            job.sum(lengths);
            while (true) job.barrier();
          },
          WorkerLost);
    }
    while (log_records(options.run, "end").size() < 2) std::this_thread::yield();
    const MembershipChange change = job.membership()->form_next(CommStatus::closed("a test"));
    ASSERT_EQ(change.lost.size(), 1u);
    EXPECT_EQ(change.lost[0].member.id.number, 0);
    EXPECT_TRUE(change.lost[0].reason.proven);
    job.leave();
  });
}

TEST_F(TrainingLoopTest, TheStartingPointIsScoredAgainAfterALoss) {
  options.max_steps = 2;
  RunDirectory before(options.run);
  attempt(before);
  options.tune.from = before.checkpoint(2);
  options.run = dir.path("tuned");
  options = with_starting_point(options);
  RunDirectory run(options.run);
  std::latch prepared(3);
  with_elastic_job(3, [&](Job& job) {
    const auto parts = prepare_attempt(options, job.first() ? &run : nullptr, job, "test");
    prepared.arrive_and_wait();
    if (job.rank() == 2) return;
    TrainingLoop(*parts).run();
  });
  EXPECT_EQ(log_records(options.run, "membership").size(), 1u);
  const std::vector<Json> scores = log_records(options.run, "starting_point");
  ASSERT_EQ(scores.size(), 1u);
  EXPECT_GT(scores[0].at("nll").get<double>(), 0.0);
  EXPECT_THAT(log_steps(options.run, "step"), ElementsAre(1, 2));
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

TEST_F(TrainingLoopTest, AllRanksSaveAfterTheSameStepsByTheClockOfRankZero) {
  options.max_steps = 3;
  options.eval.every = 0;
  options.checkpoint.every = 1000;
  RunDirectory run(options.run);
  with_job(2, [&](Job& job) {
    TrainOptions own = options;
    own.checkpoint.minutes = job.first() ? 1e-12 : 1e6;
    const auto parts = prepare_attempt(own, job.first() ? &run : nullptr, job, "test");
    TrainingLoop(*parts).run();
    EXPECT_EQ(parts->state.counters.step, 3u) << "rank " << job.rank();
  });
  EXPECT_THAT(log_steps(options.run, "checkpoint"), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace reigen
