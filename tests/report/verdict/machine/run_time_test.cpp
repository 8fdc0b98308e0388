// Wall time of a run and its start-up.
#include "report/verdict/machine/run_time.h"

#include <gtest/gtest.h>

#include "report/verdict/machine/bottleneck.h"

namespace reigen {
namespace {

// Ten seconds of steps that only compute, after a start-up.
RunSummary run_after(double setup, double data) {
  RunSummary run;
  run.add(0, StartRecord{.time = 1000 + setup, .setup_seconds = setup, .data_seconds = data});
  for (uint64_t step = 1; step <= 20; ++step) {
    run.add(0, StepRecord{.step = step,
                          .time = 1000 + setup + 0.5 * static_cast<double>(step),
                          .seconds = 0.5,
                          .spans = {{"backward", 0.5}}});
  }
  return run;
}

double sum_of(const RunTime& t) {
  return t.steps + t.evaluations + t.stalls + t.start_up + t.repeated + t.other();
}

TEST(RunTime, AnAttemptBeginsBeforeItsFirstRecord) {
  RunSummary run = run_after(30, 25);
  EXPECT_DOUBLE_EQ(run_time(run).wall, 40);
  EXPECT_DOUBLE_EQ(run_time(run).measured(), 10);
  EXPECT_DOUBLE_EQ(run_time(run).start_up, 30);
  EXPECT_DOUBLE_EQ(run_time(run).other(), 0);
  run.add(0, EndRecord{.step = 20, .time = 1042, .seconds = 42});
  EXPECT_DOUBLE_EQ(run_time(run).wall, 42);
  EXPECT_DOUBLE_EQ(run_time(run).other(), 2);
  EXPECT_DOUBLE_EQ(run_time(RunSummary()).wall, 0);
}

TEST(RunTime, ComesFromTheMonotonicClockOnceTheWallClockWasSet) {
  RunSummary run = run_after(30, 25);
  run.add(0, StepRecord{.step = 21, .time = 9000, .seconds = 0.5});
  ASSERT_EQ(run.clock_jumps, 1u);
  EXPECT_DOUBLE_EQ(run_time(run).wall, 40.5);
}

TEST(RunTime, OtherTimeIsNeverNegative) {
  RunSummary run = run_after(30, 25);
  // Logs of version 0.1: the stall for the last checkpoint is not part of the attempt's time.
  run.add(0, CheckpointRecord{.step = 20, .time = 1041, .stall_seconds = 3});
  run.add(0, EndRecord{.step = 20, .time = 1043, .seconds = 41});
  EXPECT_EQ(run_time(run).other(), 0);
  EXPECT_DOUBLE_EQ(sum_of(run_time(run)), run_time(run).wall);
}

// Killed at step 30 with a checkpoint at step 20; ten steps are repeated after a pause.
TEST(RunTime, RepeatedStepsCountAndPausesDoNot) {
  RunSummary run = run_after(3, 1);
  run.add(0, CheckpointRecord{.step = 20, .time = 1013.7, .stall_seconds = 0.25});
  run.add(0, StartRecord{.step = 20,
                         .time = 1030,
                         .attempt = 2,
                         .lost_steps = 10,
                         .lost_seconds = 5,
                         .setup_seconds = 2});
  for (uint64_t step = 21; step <= 40; ++step) {
    run.add(0,
            StepRecord{
                .step = step, .time = 1030 + 0.5 * static_cast<double>(step - 20), .seconds = 0.5});
  }
  run.add(0, EndRecord{.step = 40, .time = 1041, .seconds = 13});
  const RunTime time = run_time(run);
  EXPECT_DOUBLE_EQ(time.steps, 20);
  EXPECT_DOUBLE_EQ(time.repeated, 5);
  EXPECT_EQ(time.repeated_steps, 10u);
  EXPECT_DOUBLE_EQ(time.wall, 18 + 13);
  EXPECT_DOUBLE_EQ(sum_of(time), time.wall);
  EXPECT_DOUBLE_EQ(time.paused, 1028 - 1018);  // from the last repeated step to the second attempt
}

TEST(RunTime, ASlowStartIsPartOfTheBottleneck) {
  const RunSummary slow = run_after(30, 25);
  const Bottleneck b = bottleneck(slow);
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_TRUE(b.time.slow_start());
  EXPECT_TRUE(b.time.slow_data());
  EXPECT_TRUE(run_time(run_after(4, 1)).slow_start());
  EXPECT_FALSE(run_time(run_after(4, 1)).slow_data());
  EXPECT_FALSE(run_time(run_after(1, 1)).slow_start());
}

TEST(RunTime, TimeBetweenStepsThatNothingExplainsCountsInLongRuns) {
  EXPECT_TRUE((RunTime{.wall = 100, .steps = 70}).much_other());
  EXPECT_FALSE((RunTime{.wall = 100, .steps = 90}).much_other());
  EXPECT_FALSE((RunTime{.wall = 10, .steps = 5}).much_other());
}

}  // namespace
}  // namespace reigen
