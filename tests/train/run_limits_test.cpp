// When evaluations, checkpoints and the end of a run are due.
#include "train/run_limits.h"

#include <gtest/gtest.h>

#include "train/small_run.h"

namespace reigen {
namespace {

class RunLimitsTest : public ::testing::Test {
 protected:
  RunLimitsTest() {
    small.options.max_steps = 0;
    small.options.eval.every = 0;
    small.options.checkpoint.every = 1'000'000;
  }
  RunLimits limits(bool validated = true) const {
    return {small.options, small.data.train, validated, decay};
  }
  StopReason reason(const Counters& counters, const StopRequests& requests = {}) const {
    return limits().reason_to_stop(counters, requests);
  }
  static Counters at(uint64_t step) {
    Counters counters;
    counters.step = step;
    return counters;
  }

  SmallRun small;
  Decay decay;
};

TEST_F(RunLimitsTest, CountsEpochsByThePlaceInTheData) {
  EXPECT_EQ(limits().epochs({0, 0}), 0);
  EXPECT_EQ(limits().epochs({0, 150}), 0.5);  // of 300 pairs
  EXPECT_EQ(limits().epochs({3, 75}), 3.25);
}

TEST_F(RunLimitsTest, ARunWithoutALimitDoesNotStop) {
  EXPECT_EQ(reason(at(1'000'000)), StopReason::kNone);
  EXPECT_FALSE(limits().boundary(999'999, {7, 0}, {}));
}

TEST_F(RunLimitsTest, StopsAtStepsEpochsTimePatienceAndSignals) {
  small.options.max_steps = 10;
  EXPECT_EQ(reason(at(9)), StopReason::kNone);
  EXPECT_EQ(reason(at(10)), StopReason::kMaxSteps);
  EXPECT_EQ(reason(at(11)), StopReason::kMaxSteps);  // a resumed run with a lower limit
  small.options.max_epochs = 1.5;
  Counters counters = at(5);
  counters.cursor = {1, 149};
  EXPECT_EQ(reason(counters), StopReason::kNone);
  counters.cursor = {1, 150};
  EXPECT_EQ(reason(counters), StopReason::kMaxEpochs);
  EXPECT_EQ(reason(at(5), {.time_over = true}), StopReason::kMaxTime);
  small.options.eval.patience = 3;
  counters = at(5);
  counters.evaluations_without_gain = 2;
  EXPECT_EQ(reason(counters), StopReason::kNone);
  counters.evaluations_without_gain = 3;
  EXPECT_EQ(reason(counters), StopReason::kPatience);
  EXPECT_EQ(reason(at(10), {.interrupted = true, .time_over = true}), StopReason::kSignal);
}

TEST_F(RunLimitsTest, ABoundaryComesBeforeEverythingThatMayBeDue) {
  small.options.eval.every = 4;
  small.options.checkpoint.every = 6;
  small.options.max_steps = 11;
  for (uint64_t step = 1; step <= 12; ++step) {
    const bool expected = step % 4 == 0 || step % 6 == 0 || step >= 11;
    EXPECT_EQ(limits().boundary(step, {}, {}), expected) << step;
  }
  EXPECT_TRUE(limits().boundary(1, {}, {.interrupted = true}));
  EXPECT_TRUE(limits().boundary(1, {}, {.time_over = true}));
  small.options.max_epochs = 1;
  EXPECT_FALSE(limits().boundary(1, {0, 299}, {}));
  EXPECT_TRUE(limits().boundary(1, {1, 0}, {}));
}

TEST_F(RunLimitsTest, EvaluatesAtMultiplesAndAtTheEnd) {
  small.options.eval.every = 4;
  EXPECT_FALSE(limits().evaluation_due(at(0), StopReason::kNone));
  EXPECT_FALSE(limits().evaluation_due(at(3), StopReason::kNone));
  EXPECT_TRUE(limits().evaluation_due(at(4), StopReason::kNone));
  EXPECT_TRUE(limits().evaluation_due(at(5), StopReason::kMaxSteps));
  EXPECT_FALSE(limits().evaluation_due(at(4), StopReason::kSignal));
  EXPECT_FALSE(limits(false).evaluation_due(at(4), StopReason::kNone));
  Counters counters = at(4);
  counters.skipped_in_row = 1;
  EXPECT_FALSE(limits().evaluation_due(counters, StopReason::kNone));
  counters = at(4);
  counters.evaluated_step = 4;
  EXPECT_FALSE(limits().evaluation_due(counters, StopReason::kMaxSteps));
  small.options.eval.every = 0;
  EXPECT_FALSE(limits().evaluation_due(at(4), StopReason::kNone));
  EXPECT_TRUE(limits().evaluation_due(at(4), StopReason::kMaxTime));
}

TEST_F(RunLimitsTest, WritesACheckpointAtMultiplesAtTheEndAndAfterAnEvaluation) {
  small.options.checkpoint.every = 5;
  const StopReason none = StopReason::kNone;
  EXPECT_FALSE(limits().checkpoint_due(at(0), StopReason::kSignal, {}));
  EXPECT_FALSE(limits().checkpoint_due(at(4), none, {}));
  EXPECT_TRUE(limits().checkpoint_due(at(5), none, {}));
  EXPECT_TRUE(limits().checkpoint_due(at(4), StopReason::kSignal, {}));
  EXPECT_TRUE(limits().checkpoint_due(at(4), none, {.changed_since = true}));
  // Once for each step, unless its scores are new.
  EXPECT_FALSE(limits().checkpoint_due(at(5), none, {.step = 5}));
  EXPECT_FALSE(limits().checkpoint_due(at(5), StopReason::kMaxSteps, {.step = 5}));
  EXPECT_TRUE(limits().checkpoint_due(at(5), none, {.step = 5, .changed_since = true}));
  Counters counters = at(5);
  counters.skipped_in_row = 1;
  EXPECT_FALSE(limits().checkpoint_due(counters, none, {}));
  EXPECT_TRUE(limits().checkpoint_due(counters, StopReason::kMaxTime, {}));
}

TEST_F(RunLimitsTest, ARequestToSaveWritesACheckpointOnceAndNotOfASkippedStep) {
  const StopReason none = StopReason::kNone;
  EXPECT_TRUE(limits().boundary(4, {}, {.save = true}));
  EXPECT_EQ(reason(at(4), {.save = true}), none);
  EXPECT_TRUE(limits().checkpoint_due(at(4), none, {}, true));
  EXPECT_FALSE(limits().checkpoint_due(at(4), none, {.step = 4}, true));
  EXPECT_FALSE(limits().checkpoint_due(at(0), none, {}, true));
  Counters counters = at(4);
  counters.skipped_in_row = 1;
  EXPECT_FALSE(limits().checkpoint_due(counters, none, {}, true));
}

TEST_F(RunLimitsTest, ADecayReplacesAllOtherLimits) {
  small.options.max_steps = 10;
  small.options.max_epochs = 1;
  small.options.eval.patience = 3;
  decay = {8, 5};
  Counters counters = at(12);
  counters.evaluations_without_gain = 3;
  counters.cursor = {1, 0};
  EXPECT_EQ(reason(counters, {.time_over = true}), StopReason::kNone);
  EXPECT_FALSE(limits().boundary(12, {1, 0}, {.time_over = true, .decay_steps = 9}));
  counters.step = 13;
  EXPECT_EQ(reason(counters), StopReason::kDecayed);
  EXPECT_TRUE(limits().boundary(13, {}, {}));
  EXPECT_EQ(reason(counters, {.interrupted = true}), StopReason::kSignal);
}

TEST_F(RunLimitsTest, ARequestBeginsADecayUnlessOneHasBegun) {
  EXPECT_TRUE(limits().boundary(7, {}, {.decay_steps = 5}));
  const DueDecay due = limits().decay_due(at(7), 5);
  EXPECT_EQ(due.steps, 5u);
  EXPECT_STREQ(due.cause, "request");
  EXPECT_EQ(limits().decay_due(at(7), 0).steps, 0u);
  EXPECT_EQ(limits().decay_due(at(0), 5).steps, 0u);
  Counters skipped = at(7);
  skipped.skipped_in_row = 1;
  EXPECT_EQ(limits().decay_due(skipped, 5).steps, 0u);
  decay = {2, 3};
  EXPECT_EQ(limits().decay_due(at(7), 5).steps, 0u);
}

TEST_F(RunLimitsTest, AStalledScoreBeginsTheDecayOfWsdAndStopsOtherKinds) {
  small.options.eval.patience = 2;
  Counters counters = at(40);
  counters.evaluations_without_gain = 2;
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 0u);
  EXPECT_EQ(reason(counters), StopReason::kPatience);
  small.options.schedule = {.kind = ScheduleKind::kWsd, .warmup_steps = 5};
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 10u);
  EXPECT_STREQ(limits().decay_due(counters, 0).cause, "stalled");
  EXPECT_EQ(reason(counters), StopReason::kNone);
  // By the last step, and not where the planned decay has begun.
  small.options.max_steps = 100;
  small.options.schedule.last_step = 100;
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 10u);
  small.options.schedule.decay_steps = 45;
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 45u);
  counters.step = 55;
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 0u);
  EXPECT_EQ(reason(counters), StopReason::kNone);
  counters.step = 40;
  decay = {40, 10};
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 0u);
  decay = {};
  counters.evaluations_without_gain = 1;
  EXPECT_EQ(limits().decay_due(counters, 0).steps, 0u);
}

}  // namespace
}  // namespace reigen
