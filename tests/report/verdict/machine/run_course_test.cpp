// Changes along synthetic runs, and the bottleneck that follows from them.
#include "report/verdict/machine/run_course.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace reigen {
namespace {

// A step of a rank: its own work, and its waiting.
struct Work {
  double own = 0;
  double wait = 0;
};

// 200 steps of two ranks; from step 121 on, or the step after another `last_before`, they are
// different.
class ChangedRun {
 public:
  static constexpr int kSteps = 200;
  int last_before = 120;

  RunSummary of(std::array<Work, 2> before, std::array<Work, 2> after, double min_wait_before,
                double min_wait_after) {
    run_.add(0, StartRecord{.time = 1000, .threads = 1, .workers = 2});
    double now = 1000;
    for (int step = 1; step <= kSteps; ++step) {
      const bool late = step > last_before;
      const std::array<Work, 2>& work = late ? after : before;
      now += work[0].own + work[0].wait;
      for (int rank = 0; rank < 2; ++rank) {
        add(rank, step, now, work[static_cast<size_t>(rank)],
            late ? min_wait_after : min_wait_before);
        const double idle =
            (late ? min_wait_after : min_wait_before) / (work[0].own + work[0].wait);
        add_use(rank, step, now, late, 1 - idle);
      }
    }
    return std::move(run_);
  }

  int crowded = 1;  // rank whose cores other processes have
  double others_before = 0;
  double others_after = 0;  // after the change

 private:
  void add(int rank, int step, double now, const Work& work, double min_wait) {
    const double seconds = work.own + work.wait;
    const Spans spans = {{"backward", work.own}, {"communication", work.wait}};
    const CommunicationTimes times{.min_wait = min_wait, .sent = 1000, .inter_node_bytes = 1000};
    if (rank == 0) {
      run_.add(0, StepRecord{.step = static_cast<uint64_t>(step),
                             .time = now,
                             .target_tokens = 100,
                             .seconds = seconds,
                             .spans = spans,
                             .communication = times});
    } else {
      run_.add(rank, SpansRecord{.step = static_cast<uint64_t>(step),
                                 .steps = 1,
                                 .seconds = seconds,
                                 .spans = spans,
                                 .communication = times});
    }
  }
  // `active`: share of the time in which a thread runs or wants to; the rest waits for the network.
  void add_use(int rank, int step, double now, bool late, double active) {
    const double others = rank != crowded ? 0 : late ? others_after : others_before;
    run_.add(rank, ProcessRecord{.step = static_cast<uint64_t>(step),
                                 .time = now,
                                 .seconds = 0.1,
                                 .machine = "m",
                                 .cores = rank == 0 ? "0" : "1",
                                 .core_count = 1,
                                 .cpu = 0.1 * (1 - others) * active,
                                 .run_delay = 0.1 * others * active,
                                 .cores_busy = others > 0 ? 0.1 : 0.1 * active});
  }

  RunSummary run_;
};

TEST(RunCourse, ALinkThatDegradesIsNamedFromThatStepOn) {
  const RunSummary run = ChangedRun().of({{{0.09, 0.002}, {0.09, 0.002}}},
                                         {{{0.09, 0.63}, {0.09, 0.63}}}, 0.002, 0.63);
  const RunCourse course = run_course(run);
  ASSERT_EQ(course.changes.size(), 1u);
  const Change& change = course.changes[0];
  EXPECT_NEAR(change.step, 121, 6);
  EXPECT_NEAR(change.begin, 120 * 0.092, 1);
  EXPECT_NEAR(change.before, 0.092, 0.01);
  EXPECT_NEAR(change.after, 0.72, 0.01);
  EXPECT_EQ(change.cause, Cause::kNetwork);
  EXPECT_GT(change.part_share, 0.95);
  EXPECT_NEAR(change.part_after, 0.63, 0.01);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kNetwork);
  EXPECT_EQ(b.confidence, Confidence::kHigh);
  EXPECT_TRUE(slowed_lately(course) == &change);
}

TEST(RunCourse, AnEarlyChangeIsFoundWhereTheTimeBeforeItIsAVerySmallShare) {
  for (const int last_before : {80, 40}) {
    ChangedRun changed;
    changed.last_before = last_before;
    const RunSummary run =
        changed.of({{{0.02, 0.002}, {0.02, 0.002}}}, {{{0.02, 1.5}, {0.02, 1.5}}}, 0.002, 1.5);
    const RunCourse course = run_course(run);
    ASSERT_EQ(course.changes.size(), 1u);
    EXPECT_NEAR(course.changes[0].step, last_before + 1, 6);
    EXPECT_EQ(course.changes[0].cause, Cause::kNetwork);
  }
}

TEST(RunCourse, OtherWorkOnTheCoreOfARankIsTheReasonForItsDelay) {
  ChangedRun changed;
  changed.others_after = 0.5;
  const RunSummary run =
      changed.of({{{0.09, 0.002}, {0.09, 0.002}}}, {{{0.09, 0.092}, {0.18, 0.002}}}, 0.002, 0.002);
  const RunCourse course = run_course(run);
  ASSERT_EQ(course.changes.size(), 1u);
  EXPECT_EQ(course.changes[0].cause, Cause::kStraggler);
  EXPECT_EQ(course.changes[0].rank, 1);
  EXPECT_EQ(course.changes[0].reason, SlowReason::kOthers);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kInterference);
  EXPECT_EQ(b.rank, 1);
  EXPECT_EQ(b.advice, Advice::kStopOthers);
  EXPECT_TRUE(b.of_last_stretch);
  ASSERT_EQ(b.shares.late.size(), 1u);
  EXPECT_EQ(b.shares.late[0].reason, SlowReason::kOthers);
}

// Where others had most of the cores before, too, their share grows by little.
TEST(RunCourse, TheReasonIsThatOfTheLargestPartOfTheDifference) {
  ChangedRun made;
  made.crowded = 0;
  made.others_before = 0.85;
  made.others_after = 0.93;
  const RunSummary run =
      made.of({Work{0.3, 0.01}, Work{0.3, 0.01}}, {Work{0.9, 0.01}, Work{0.9, 0.01}}, 0.01, 0.01);
  const RunCourse course = run_course(run);
  ASSERT_EQ(course.changes.size(), 1);
  EXPECT_EQ(course.changes[0].cause, Cause::kInterference);
  EXPECT_EQ(course.changes[0].reason, SlowReason::kOthers);
}

TEST(RunCourse, ASlowRankWhoseCoreNobodyElseHadIsSlowHardware) {
  const RunSummary run = ChangedRun().of({{{0.09, 0.002}, {0.09, 0.002}}},
                                         {{{0.09, 0.092}, {0.18, 0.002}}}, 0.002, 0.002);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kStraggler);
  EXPECT_EQ(b.shares.late.at(0).reason, SlowReason::kHardware);
  EXPECT_EQ(b.advice, Advice::kInspectHost);
}

TEST(RunCourse, AGpuThatLowersItsClockOrIsSharedIsTheReason) {
  for (const bool shared : {false, true}) {
    RunSummary run;
    run.add(0, StartRecord{.time = 1000, .device_kind = "gpu"});
    double now = 1000;
    for (uint64_t step = 1; step <= 200; ++step) {
      const double seconds = step > 120 ? 0.2 : 0.1;
      now += seconds;
      run.add(0, StepRecord{.step = step,
                            .time = now,
                            .target_tokens = 100,
                            .seconds = seconds,
                            .spans = {{"backward", seconds}}});
      GpuSample gpu{.name = "gpu"};
      if (step > 120 && shared) gpu.other_processes = 1;
      if (step > 120 && !shared) gpu.slowed_by = "thermal";
      run.add(0, SampleRecord{.step = step, .time = now, .seconds = seconds, .gpus = {gpu}});
    }
    const RunCourse course = run_course(run);
    ASSERT_EQ(course.changes.size(), 1u);
    EXPECT_EQ(course.changes[0].cause, Cause::kCompute);
    EXPECT_EQ(course.changes[0].reason, shared ? SlowReason::kGpuOthers : SlowReason::kGpuSlowed);
    EXPECT_EQ(bottleneck(run).cause, shared ? Cause::kGpuShared : Cause::kGpuSlowed);
  }
}

TEST(RunCourse, ComputingThatTakesLongerThanBeforeIsASlowerProcessor) {
  RunSummary run = ChangedRun().of({{{0.09, 0.002}, {0.09, 0.002}}},
                                   {{{0.18, 0.002}, {0.18, 0.002}}}, 0.002, 0.002);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kSlowerProcessor);
  EXPECT_EQ(b.whole.cause, Cause::kCompute);
  EXPECT_EQ(b.confidence, Confidence::kMedium);  // nobody else had the cores: clock or memory
  EXPECT_TRUE(b.of_last_stretch);
  EXPECT_NEAR(b.course->changes.at(0).step, 121, 6);
  // The clock of the cores says why.
  for (uint64_t step = 1; step <= 200; ++step) {
    run.add(0, SampleRecord{.step = step, .seconds = 0.1, .clock = step > 120 ? 1500 : 3000});
  }
  EXPECT_EQ(bottleneck(run).course->changes.at(0).reason, SlowReason::kClock);
  EXPECT_EQ(bottleneck(run).confidence, Confidence::kHigh);
}

TEST(RunCourse, ComputingThatTakesLongerForAnUnknownReasonIsSaidWithLowConfidence) {
  RunSummary run;
  for (uint64_t step = 1; step <= 200; ++step) {
    const double seconds = step > 120 ? 0.2 : 0.1;
    run.add(0, StepRecord{.step = step,
                          .target_tokens = 100,
                          .seconds = seconds,
                          .spans = {{"backward", seconds}}});
  }
  EXPECT_EQ(bottleneck(run).cause, Cause::kSlowerProcessor);
  EXPECT_EQ(bottleneck(run).confidence, Confidence::kLow);
}

TEST(RunCourse, AQuotaThatBeginsInMidRunIsTheReason) {
  RunSummary run;
  run.add(0, StartRecord{.threads = 1});
  for (uint64_t step = 1; step <= 200; ++step) {
    const bool late = step > 120;
    const double seconds = late ? 0.4 : 0.1;
    run.add(0, StepRecord{.step = step,
                          .target_tokens = 100,
                          .seconds = seconds,
                          .spans = {{"backward", seconds}}});
    run.add(0, ProcessRecord{.step = step,
                             .seconds = seconds,
                             .machine = "m",
                             .cores = "0",
                             .core_count = 1,
                             .core_limit = late ? 0.25 : 0,
                             .cpu = 0.1,
                             .run_delay = seconds - 0.1,
                             .throttled = seconds - 0.1,
                             .cores_busy = 0.1});
  }
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kQuota);
  EXPECT_EQ(b.course->changes.at(0).cause, Cause::kQuota);
  EXPECT_EQ(b.course->changes.at(0).reason, SlowReason::kQuota);
}

// Rank 1 works twice as long from the middle on, and still less than rank 0.
TEST(RunCourse, ARankWhoseWorkChangesIsFoundThoughStepsTakeAsLong) {
  const RunSummary run = ChangedRun().of({{{0.2, 0.002}, {0.05, 0.152}}},
                                         {{{0.2, 0.002}, {0.1, 0.102}}}, 0.002, 0.002);
  const RunCourse course = run_course(run);
  EXPECT_TRUE(course.changes.empty());
  ASSERT_EQ(course.rank_changes.size(), 1u);
  EXPECT_EQ(course.rank_changes[0].rank, 1);
  EXPECT_NEAR(course.rank_changes[0].step, 121, 6);
  EXPECT_NEAR(course.rank_changes[0].before, 0.05, 1e-6);
  EXPECT_NEAR(course.rank_changes[0].after, 0.1, 1e-6);
}

// From step 301 on, the gradient norm is `factor` times as high.
RunSummary run_with_norm(double factor) {
  RunSummary run;
  for (uint64_t step = 1; step <= 500; ++step) {
    const double wave = 1 + 0.03 * std::sin(2.7 * static_cast<double>(step));
    run.add(0, StepRecord{.step = step,
                          .norm = (1 + 0.002 * static_cast<double>(step)) * wave *
                                  (step > 300 ? factor : 1),
                          .target_tokens = 100,
                          .seconds = 0.1,
                          .spans = {{"backward", 0.1}}});
  }
  return run;
}

TEST(RunCourse, AGradientNormThatRisesAtOnceIsFoundAndADriftIsNot) {
  EXPECT_TRUE(run_course(run_with_norm(1)).norm_rises.empty());
  const RunCourse risen = run_course(run_with_norm(5));
  ASSERT_EQ(risen.norm_rises.size(), 1u);
  EXPECT_NEAR(risen.norm_rises[0].step, 301, 8);
  EXPECT_NEAR(risen.norm_rises[0].after / risen.norm_rises[0].before, 5, 0.3);
}

TEST(RunCourse, AHealthyRunHasOneStretch) {
  const RunSummary run = ChangedRun().of({{{0.09, 0.002}, {0.09, 0.002}}},
                                         {{{0.09, 0.002}, {0.09, 0.002}}}, 0.002, 0.002);
  const RunCourse course = run_course(run);
  EXPECT_TRUE(course.changes.empty());
  ASSERT_EQ(course.stretches.size(), 1u);
  EXPECT_EQ(slowed_lately(course), nullptr);
  EXPECT_EQ(bottleneck(run).cause, Cause::kCompute);
  EXPECT_TRUE(run_course(RunSummary()).stretches.empty());
}

TEST(RunCourse, ARunThatRecoversIsJudgedAsAWhole) {
  const RunSummary run = ChangedRun().of({{{0.09, 0.63}, {0.09, 0.63}}},
                                         {{{0.09, 0.002}, {0.09, 0.002}}}, 0.63, 0.002);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kNetwork);
  EXPECT_FALSE(b.of_last_stretch);
  ASSERT_EQ(b.course->changes.size(), 1u);
  EXPECT_FALSE(b.course->changes[0].slower());
  EXPECT_EQ(slowed_lately(*b.course), nullptr);
}

}  // namespace
}  // namespace reigen
