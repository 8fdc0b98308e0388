// The last step that the limits of a run imply, and the decay of wsd before it.
#include "train/last_step.h"

#include <gtest/gtest.h>

#include "train/run_limits.h"
#include "train/small_run.h"

namespace reigen {
namespace {

class LastStepTest : public ::testing::Test {
 protected:
  LastStepTest() {
    small.options.max_steps = 0;
    small.options.schedule = {.kind = ScheduleKind::kWsd, .warmup_steps = 2};
  }
  int64_t last() const { return planned_last_step(small.options, small.data.train); }
  bool warned() {
    small.options.schedule.last_step = last();
    return !missing_decay(small.options).empty();
  }

  SmallRun small;
};

TEST_F(LastStepTest, IsTheFirstOfStepsAndEpochs) {
  EXPECT_EQ(last(), 0);
  small.options.batch.pairs = 40;
  small.options.max_epochs = 2;
  EXPECT_EQ(last(), 15);  // of 300 pairs
  small.options.max_epochs = 2.1;
  EXPECT_EQ(last(), 16);
  small.options.max_steps = 9;
  EXPECT_EQ(last(), 9);
  small.options.max_steps = 90;
  EXPECT_EQ(last(), 16);
  small.options.max_epochs = 1e9;  // too many to count
  EXPECT_EQ(last(), 90);
}

TEST_F(LastStepTest, OfBatchesByTokensIsTheStepThatEndsTheRun) {
  small.options.max_epochs = 1.5;
  const Decay none;
  const RunLimits limits(small.options, small.data.train, false, none);
  BatchStream stream(small.data.train, static_cast<uint64_t>(small.options.seed),
                     batch_size(small.options));
  Counters counters;
  while (limits.reason_to_stop(counters, {}) == StopReason::kNone) {
    counters.cursor = stream.next().end;
    ++counters.step;
  }
  EXPECT_EQ(last(), static_cast<int64_t>(counters.step));
  EXPECT_GT(last(), 2);
}

TEST_F(LastStepTest, OtherKindsNeedNoCountOfSteps) {
  small.options.schedule.kind = ScheduleKind::kFixed;
  small.options.max_epochs = 2;
  EXPECT_EQ(last(), 0);
  EXPECT_FALSE(warned());
}

TEST_F(LastStepTest, WsdWithoutADecayIsWarnedAbout) {
  small.options.eval.patience = 2;
  EXPECT_FALSE(warned());  // a stall begins the decay
  small.options.max_time = 60;
  EXPECT_TRUE(warned());
  small.options.max_epochs = 3;
  EXPECT_FALSE(warned());
  small.options.max_epochs = 1e9;
  EXPECT_TRUE(warned());
  small.options.max_steps = 2;  // all of the warm-up
  EXPECT_TRUE(warned());
  small.options.max_steps = 3;
  EXPECT_FALSE(warned());
}

TEST_F(LastStepTest, ADecayThatTimeCutsShortIsWarnedAbout) {
  small.options.max_steps = 20;
  small.options.schedule.last_step = last();
  EXPECT_NE(unfinished_decay(small.options, 5), "");
  EXPECT_NE(unfinished_decay(small.options, 19), "");
  EXPECT_EQ(unfinished_decay(small.options, 20), "");
  small.options.schedule.kind = ScheduleKind::kFixed;
  EXPECT_EQ(unfinished_decay(small.options, 5), "");
}

}  // namespace
}  // namespace reigen
