// Wall time of a run and its start-up.
#include "report/verdict/run_time.h"

#include <gtest/gtest.h>

#include "report/verdict/verdicts.h"

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

TEST(RunTime, AnAttemptBeginsBeforeItsFirstRecord) {
  RunSummary run = run_after(30, 25);
  EXPECT_DOUBLE_EQ(run_time(run).wall, 40);
  EXPECT_DOUBLE_EQ(run_time(run).measured, 10);
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
}

TEST(RunTime, ASlowStartIsPartOfTheBottleneck) {
  const RunSummary slow = run_after(30, 25);
  const Bottleneck b = bottleneck(slow, time_shares(slow));
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_TRUE(b.time.slow_start());
  EXPECT_TRUE(b.time.slow_data());
  EXPECT_TRUE(run_time(run_after(4, 1)).slow_start());
  EXPECT_FALSE(run_time(run_after(4, 1)).slow_data());
  EXPECT_FALSE(run_time(run_after(1, 1)).slow_start());
}

}  // namespace
}  // namespace reigen
