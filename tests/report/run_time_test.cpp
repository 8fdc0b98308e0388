// How long a run took, and what of that was start-up.
#include "report/run_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/verdicts.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(RunTime, IsThatOfAClockThatOnlyGoesForwardOnceTheOtherWasSet) {
  RunSummary run = run_after(30, 25);
  run.add(0, StepRecord{.step = 21, .time = 9000, .seconds = 0.5});
  ASSERT_EQ(run.clock_jumps, 1u);
  EXPECT_DOUBLE_EQ(run_time(run).wall, 40.5);
}

TEST(RunTime, ASlowStartIsToldWithTheBottleneck) {
  const RunSummary slow = run_after(30, 25);
  const Verdict v = bottleneck(slow, time_shares(slow));
  EXPECT_EQ(v.verdict, "compute");
  EXPECT_THAT(v.because, HasSubstr("of the time of steps, evaluations and checkpoints, 100% was"));
  EXPECT_THAT(v.because, HasSubstr("start-up took 30.0 s, 75% of the 40.0 s of the run"));
  EXPECT_THAT(v.because, HasSubstr("25.0 s of it went into opening and verifying data"));
  EXPECT_THAT(v.advice, HasSubstr("a faster disk for the data"));

  const RunSummary measuring = run_after(4, 1);
  EXPECT_THAT(bottleneck(measuring, time_shares(measuring)).because, Not(HasSubstr("opening")));
  EXPECT_THAT(bottleneck(measuring, time_shares(measuring)).advice,
              Not(HasSubstr("a faster disk")));

  const RunSummary quick = run_after(1, 1);
  EXPECT_THAT(bottleneck(quick, time_shares(quick)).because, Not(HasSubstr("start-up")));
  EXPECT_THAT(bottleneck(quick, time_shares(quick)).rule, HasSubstr("15% of the run"));
}

}  // namespace
}  // namespace reigen
