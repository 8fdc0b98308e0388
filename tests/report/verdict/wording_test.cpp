// The sentences of verdicts. Tests of the verdicts themselves look at values.
#include "report/verdict/wording.h"

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
  return b;
}

TEST(Wording, ABottleneckHasEvidenceAndAdvice) {
  const VerdictText v = text_of(sample_bottleneck());
  EXPECT_EQ(v.about, "bottleneck");
  EXPECT_EQ(v.verdict, "compute");
  EXPECT_EQ(v.confidence, "medium");
  EXPECT_EQ(
      v.because,
      "of the time in steps, evaluations and checkpoints, 79% was compute, 20% evaluation, 1% "
      "other work; compute reached 320 TFLOP/s, 84% of 381 TFLOP/s in large matrix products; "
      "the largest avoidable part was evaluation, 20%");
  EXPECT_EQ(v.advice,
            "more or faster processors shorten the steps; a faster network or disk does not");
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
  b.time = {.wall = 40, .measured = 10, .start_up = 30, .data = 25};
  EXPECT_THAT(text_of(b).because, HasSubstr("; start-up took 30.0 s, 75% of the 40.0 s of the run, "
                                            "25.0 s of it for opening and verifying data"));
  EXPECT_THAT(text_of(b).advice, HasSubstr("a faster disk for the data"));
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
