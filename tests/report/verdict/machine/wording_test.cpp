// The sentences of verdicts. Tests of the verdicts themselves look at values.
#include "report/verdict/machine/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reigen {
namespace {

using testing::HasSubstr;

Bottleneck sample_bottleneck() {
  Bottleneck b;
  b.cause = Cause::kCompute;
  b.confidence = Confidence::kMedium;
  b.advice = Advice::kFasterProcessors;
  b.largest = {Cause::kEvaluation, 0.2};
  b.steps = 40;
  b.shares.total = 100;
  b.shares.compute = 79;
  b.efficiency = {.achieved = 3.2e14, .capacity = 381482.1e9};
  b.parts = {{Cause::kEvaluation, 0.2}, {Cause::kOther, 0.01}};
  b.whole = b;
  return b;
}

TEST(Wording, ABottleneckHasEvidenceAndAdvice) {
  const VerdictText v = text_of(sample_bottleneck());
  EXPECT_EQ(v.about, "bottleneck");
  EXPECT_EQ(v.verdict, "compute");
  EXPECT_EQ(v.confidence, "medium");
  EXPECT_EQ(
      v.because,
      "of all time in steps, evaluations and checkpoints: 79% compute, 20% "
      "evaluation, 1% other work; compute reached 320 TFLOP/s, 84% of 381 TFLOP/s in large matrix "
      "products; the largest avoidable part was evaluation with 20%");
  EXPECT_EQ(v.advice,
            "more or faster processors shorten the steps; a faster network does not; use a larger "
            "--eval.every, or fewer --eval.sentences");
}

TEST(Wording, AStragglerIsNamedWithItsRank) {
  Bottleneck b = sample_bottleneck();
  b.cause = Cause::kStraggler;
  b.rank = 2;
  b.advice = Advice::kInspectQuota;
  b.shares.slowest_ratio = 1.15;
  b.shares.descheduled_rank = 2;
  b.shares.descheduled_share = 0.4;
  const VerdictText v = text_of(b);
  EXPECT_EQ(v.verdict, "straggler: rank 2");
  EXPECT_THAT(v.because, HasSubstr("rank 2 was descheduled for 40% of the time (CPU quota, stop "
                                   "signal or paused VM)"));
  EXPECT_THAT(v.advice, HasSubstr("CPU quota"));
}

TEST(Wording, AnUnknownVerdictStatesHowMuchIsMissing) {
  Bottleneck b;
  b.steps = 1;
  EXPECT_EQ(text_of(b).verdict, "cannot tell");
  EXPECT_EQ(text_of(b).confidence, "");
  EXPECT_EQ(text_of(b).because, "a verdict needs 10 steps after the first, and the run has 1");
}

TEST(Wording, ASlowStartFollowsTheEvidence) {
  Bottleneck b = sample_bottleneck();
  b.time = {.wall = 40, .steps = 10, .start_up = 30, .data = 25};
  EXPECT_THAT(text_of(b).because, HasSubstr("; start-up took 30.0 s, 75% of the 40.0 s of the run, "
                                            "25.0 s of it for opening and verifying data"));
  EXPECT_THAT(text_of(b).advice, HasSubstr("a faster disk for the data"));
}

TEST(Wording, AdviceIsACommandWithThePathAndNumbersOfTheRun) {
  Bottleneck b = sample_bottleneck();
  b.cause = Cause::kEvaluation;
  b.advice = Advice::kEvaluateLess;
  b.evaluations = {5, 5, 5, 5};
  b.whole.shares.evaluation = 20;
  b.place.path = "/runs/a";
  b.place.options.emplace().eval.every = 50;
  EXPECT_THAT(text_of(b).advice, HasSubstr("`reigen train --run /runs/a --eval.every 100`"));
  EXPECT_THAT(text_of(b).advice, HasSubstr("expected to save 10% to 10% of the time"));
  b.cause = Cause::kNetwork;
  b.advice = Advice::kFasterLink;
  b.mean_step = 0.5;
  b.prediction = PredictionRecord{.seconds = 0.4, .better = "powersgd:8", .better_seconds = 0.1};
  EXPECT_THAT(text_of(b).advice, HasSubstr("`reigen train --run /runs/a --compress powersgd:8`"));
  EXPECT_THAT(text_of(b).advice, HasSubstr("0.10 s to 0.12 s"));
}

TEST(Wording, CommandsQuoteAPathWithSpaces) {
  Bottleneck b = sample_bottleneck();
  b.advice = Advice::kEvaluateLess;
  b.place.path = "/my runs/a";
  b.place.options.emplace().eval.every = 50;
  EXPECT_THAT(text_of(b).advice, HasSubstr("`reigen train --run '/my runs/a' --eval.every 100`"));
}

TEST(Wording, EveryCauseHasASentenceAndEveryAdviceOne) {
  Bottleneck b = sample_bottleneck();
  auto course = std::make_shared<RunCourse>();
  course->changes.push_back({.step = 9, .before = 1, .after = 2});
  b.course = course;
  b.uses[0] = {.known = true, .list = "0-3", .cores = 4, .threads = 1, .own = 1, .idle = 3};
  for (int i = 1; i <= static_cast<int>(Cause::kOther); ++i) {
    b.cause = static_cast<Cause>(i);
    EXPECT_NE(summary_of(b), "") << id_of(b.cause);
  }
  for (int i = 1; i <= static_cast<int>(Advice::kReadLog); ++i) {
    EXPECT_NE(advice_text(b, static_cast<Advice>(i)), "") << i;
  }
  EXPECT_THAT(advice_text(b, Advice::kMoreThreads),
              HasSubstr("`reigen train --run RUN --threads 4`"));
  // Two threads on one core.
  b.uses[0] = {.known = true, .list = "5", .cores = 1, .threads = 2, .own = 1};
  b.uses[0].lost_to_workers = 0.35;
  EXPECT_THAT(advice_text(b, Advice::kFewerThreads),
              HasSubstr("`reigen train --run RUN --threads 1`"));
  EXPECT_THAT(advice_text(b, Advice::kFewerThreads), HasSubstr("at most 1.5 times"));
}

TEST(Wording, AllSlowRanksAreNamedWithTheirReasons) {
  Bottleneck b = sample_bottleneck();
  b.cause = Cause::kSharedCores;
  b.rank = 2;
  b.shares.late = {{2, 1.95, SlowReason::kSharedCores}, {1, 1.9, SlowReason::kOthers}};
  b.uses[1] = {.known = true, .list = "1", .cores = 1, .own = 0.5, .others = 0.5};
  b.uses[2] = {.known = true, .list = "2", .cores = 1, .own = 0.5, .sharing = {2, 3}};
  const VerdictText v = text_of(b);
  EXPECT_EQ(v.verdict, "shared cores: ranks 1 and 2");
  EXPECT_THAT(v.because, HasSubstr("rank 2 worked 1.95 times as long as the faster ranks: ranks 2 "
                                   "and 3 share 1 core (core 2); rank 1 worked 1.90"));
  EXPECT_THAT(v.because, HasSubstr(": other processes had 0.5 of its only core (core 1)"));
}

TEST(Wording, PagesThatComeFromDiskAreEvidenceOfASingleWorkerToo) {
  Bottleneck b = sample_bottleneck();
  b.uses[0] = {.known = true, .list = "0", .cores = 1, .own = 1, .major_faults = 400};
  EXPECT_THAT(text_of(b).because, HasSubstr("rank 0 read 400 pages per second back from disk"));
  b.uses[0].major_faults = 2;
  EXPECT_THAT(text_of(b).because, Not(HasSubstr("from disk")));
}

TEST(Wording, ALinkIsSlowAgainstItsOtherDirectionAndItsInterface) {
  PredictionRecord p;
  p.links = {{0, 1, 5e6}, {1, 0, 1.25e9}};
  EXPECT_EQ(slow_links_text(p, 0),
            "40 Mbit/s were measured from rank 0 to rank 1, and 10,000 Mbit/s in the opposite "
            "direction: check whether a port is limited");
  p.links = {{0, 1, 12e6}, {1, 0, 12e6}};
  EXPECT_EQ(slow_links_text(p, 0), "");
  EXPECT_THAT(slow_links_text(p, 1.25e9),
              HasSubstr("96 Mbit/s were measured from rank 1 to rank 0, where the interface has a "
                        "nominal 10,000 Mbit/s"));
}

TEST(Wording, CheckpointAdviceMentionsCompressionStateWhereThereIsAny) {
  Bottleneck b = sample_bottleneck();
  b.cause = Cause::kCheckpoint;
  b.advice = Advice::kSaveLess;
  EXPECT_THAT(text_of(b).advice, Not(HasSubstr("--compress")));
  b.compression = {.method = CompressMethod::kInt8};
  EXPECT_THAT(text_of(b).advice, HasSubstr("with --compress int8 each checkpoint"));
}

}  // namespace
}  // namespace reigen
