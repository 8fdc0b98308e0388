#include "plan/preflight.h"

#include <gtest/gtest.h>

#include "plan/wording.h"

namespace reigen {
namespace {

ParameterLayout small_layout() {
  ParameterLayout layout;
  for (int i = 0; i < 32; ++i) layout.add("m", 256, 256);
  return layout;
}

Preflight preflight_on(double megabits) {
  Preflight p;
  Measured& m = p.measured;
  m.workers = 2;
  m.compute = {.forward = 0.3, .backward = 0.5, .optimizer = 0.05, .last_backward = 0.5};
  m.link = {.latency = 2e-4, .bandwidth = megabits * 1e6 / 8};
  p.compute_by_rank = {0.85, 0.85};
  return p;
}

TEST(Preflight, AWorkerIsSlowFrom30PercentAboveTheMedianOn) {
  EXPECT_FALSE(slow_rank({}));
  EXPECT_FALSE(slow_rank({1}));
  EXPECT_FALSE(slow_rank({1, 1.29}));
  const auto slow = slow_rank({1, 2, 1});
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 1);
  EXPECT_EQ(slow->seconds, 2);
  EXPECT_EQ(slow->usual, 1);
}

TEST(Preflight, ASlowLinkGetsTheSettingThatAutoWouldChoose) {
  TrainOptions options;
  Choices choices;
  uint64_t step = 0;
  choices.compress = "none";
  const auto fast = findings_of(preflight_on(10'000), small_layout(), options, step, choices);
  EXPECT_FALSE(fast.auto_step);
  EXPECT_EQ(waiting_warning(fast), "");
  const auto slow = findings_of(preflight_on(20), small_layout(), options, step, choices);
  ASSERT_TRUE(slow.auto_step);
  EXPECT_LT(slow.auto_step->seconds, slow.step.seconds);
  EXPECT_NE(waiting_warning(slow), "");
  EXPECT_FALSE(slow.chosen_before);
  step = 5;
  choices.workers = 2;
  EXPECT_TRUE(findings_of(preflight_on(20), small_layout(), options, step, choices).chosen_before);
}

TEST(Preflight, OnlyRemainingWarmupStepsCount) {
  TrainOptions options;
  Choices choices;
  uint64_t step = 0;
  choices.compress = "powersgd:4";
  choices.compress_warmup = 10;
  step = 4;
  EXPECT_EQ(findings_of(preflight_on(5), small_layout(), options, step, choices).warmup_steps, 6u);
  EXPECT_TRUE(findings_of(preflight_on(5), small_layout(), options, step, choices).slow_warmup());
  step = 10;
  EXPECT_EQ(findings_of(preflight_on(5), small_layout(), options, step, choices).warmup_steps, 0u);
}

// The wording itself; all other tests look at values.
TEST(PlanWording, LogLinesStandAlone) {
  PreflightFindings found;
  found.step = {.seconds = 0.0109, .compute = 0.0107, .exposed = 0.0002};
  found.link = {.latency = 9e-5, .bandwidth = 1.73e9};
  EXPECT_EQ(
      preflight_line(found),
      "preflight: link 13,840 Mbit/s, latency 0.09 ms; predicted step 10.9 ms: 10.7 ms compute, "
      "0.2 ms waiting for the network; compression none");
  EXPECT_EQ(
      text_of({.cause = Cause::kNetwork},
              {.seconds = 2, .compute = 0.5, .communication = 1.5, .exposed = 1.5}, found.link),
      "bottleneck: network; 75% of a step of 2.0 s is spent waiting for it, mostly for its "
      "bandwidth of 13,840 Mbit/s");
  EXPECT_EQ(
      slow_worker_warning({.rank = 1, .seconds = 2, .usual = 1}),
      "rank 1 needs 2.0 s to compute its share of a step, the median worker 1.0 s: all workers "
      "wait for the slowest; `reigen doctor` examines its host");
}

}  // namespace
}  // namespace reigen
