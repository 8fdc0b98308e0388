// The sentences of verdicts on learning, and the commands they advise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::Not;

ExpectedGain gain_of(double more, double gain, double low, double high) {
  return {.more = more, .gain = gain, .low = low, .high = high, .deviation = (high - low) / 2.5};
}

Trained improving_run() {
  Trained t;
  t.answer = Trained::Answer::kImproving;
  t.confidence = Confidence::kHigh;
  t.run = "runs/first";
  t.plan = {.step = 600, .last = 600};
  t.losses = {{550, 1.1}, {600, 1}};
  t.gains = {gain_of(0.1, 0.03, 0.02, 0.04), gain_of(0.5, 0.15, 0.1, 0.21),
             gain_of(1, 0.25, 0.15, 0.35)};
  return t;
}

TEST(Wording, AGainIsLessLossWithItsInterval) {
  EXPECT_EQ(text_of(gain_of(0.5, 0.15, 0.1, 0.21)),
            "0.150 less loss (80% interval 0.100 to 0.210)");
  EXPECT_EQ(text_of(gain_of(0.5, -0.071, -0.1, -0.04)),
            "0.071 more loss (80% interval 0.040 to 0.100)");
  EXPECT_EQ(text_of(gain_of(0.5, 0.006, -0.016, 0.029)),
            "0.006 less loss (80% interval 0.016 more to 0.029 less)");
  EXPECT_EQ(text_of_bleu(gain_of(0.5, 2.1, -0.4, 3.8)),
            "2.1 more BLEU (80% interval 0.4 less to 3.8 more)");
}

TEST(Wording, AdviceToTrainOnCanBeTyped) {
  Trained t = improving_run();
  VerdictText v = text_of(t);
  EXPECT_EQ(v.verdict, "no, still improving");
  EXPECT_THAT(v.because, HasSubstr("600 of 600 steps are done (100%)"));
  EXPECT_THAT(v.because, HasSubstr("expected from 50% more steps, at step 900: 0.150 less loss"));
  EXPECT_THAT(v.advice, HasSubstr("`reigen train --run runs/first --max-steps 900`"));
  t.run = "runs/my first";
  EXPECT_THAT(text_of(t).advice, HasSubstr("--run 'runs/my first' --max-steps 900"));
  t.plan.last = 800;
  t.to_end = gain_of(1 / 3.0, 0.1, 0.06, 0.14);
  EXPECT_THAT(text_of(t).advice, HasSubstr("trains on to the planned step 800: expect 0.100 less"));
  EXPECT_THAT(text_of(t).advice, Not(HasSubstr("--max-steps")));
  t.of_decay = gain_of(0.25, 0.12, 0.05, 0.2);
  t.decay_steps = 150;
  EXPECT_THAT(text_of(t).advice, HasSubstr("--decay-now 150`"));
}

TEST(Wording, AGainOfBleuStandsBesideThatOfLoss) {
  Trained t = improving_run();
  t.bleu_gains = {gain_of(0.1, 0.4, -1, 2), gain_of(0.5, 2.1, 0.4, 3.8), gain_of(1, 4, 1, 7)};
  EXPECT_THAT(text_of(t).because, HasSubstr("and 2.1 more BLEU (80% interval 0.4 to 3.8)"));
}

TEST(Wording, ARunStoppedEarlyIsHeldAgainstItsPlan) {
  Trained t;
  t.answer = Trained::Answer::kImproving;
  t.evidence = Trained::Evidence::kTooFew;
  t.plan = {.step = 31, .last = 600};
  t.early_training = 9;
  t.late_training = 6.1;
  const VerdictText v = text_of(t);
  EXPECT_THAT(v.because, HasSubstr("31 of 600 steps are done (5%)"));
  EXPECT_THAT(v.because, HasSubstr("9.000 in the first third of the steps and 6.100"));
  EXPECT_THAT(v.because, HasSubstr("a prediction needs 5 evaluations, and the run has 0"));
  EXPECT_THAT(v.advice, HasSubstr("`reigen train --run RUN` trains on to the planned step 600"));
}

TEST(Wording, AScheduleThatIsOverIsNoReasonToTrainOn) {
  Trained t;
  t.answer = Trained::Answer::kScheduleOver;
  t.run = "runs/first/";
  t.plan = {.step = 400, .last = 400};
  t.losses = {{400, 0.3}};
  t.peak_rate = 0.002;
  t.rate_since = 399;
  t.schedule = ScheduleOptions{.kind = ScheduleKind::kCosine, .decay_steps = 400};
  VerdictText v = text_of(t);
  EXPECT_EQ(v.verdict, "as far as its schedule goes");
  EXPECT_THAT(v.because, HasSubstr("the learning rate is 0 since step 399, after a peak of 0.002"));
  EXPECT_THAT(v.advice,
              HasSubstr("`reigen train --config runs/first/config.yaml --run runs/first-longer "
                        "--max-steps 600 --schedule.decay-steps 600`"));
  EXPECT_THAT(v.advice, Not(HasSubstr("expect")));
  t.phase = RateDecay::Phase::kAfter;
  t.of_longer = gain_of(0.5, 0.05, 0.02, 0.08);
  v = text_of(t);
  EXPECT_THAT(v.advice, HasSubstr("expect 0.050 less loss (80% interval 0.020 to 0.080)"));
}

TEST(Wording, ALossThatMeansNothingHasItsReason) {
  Trained t;
  t.answer = Trained::Answer::kUseless;
  t.run = "r";
  t.schedule = ScheduleOptions{.kind = ScheduleKind::kFixed, .rate = 0.03};
  t.level = {.fault = LossLevel::Fault::kFrequenciesOnly,
             .valid = 5.55,
             .train = 5.6,
             .frequencies = 5.58,
             .norm = 7,
             .clip = 1,
             .rate = 0.03};
  VerdictText v = text_of(t);
  EXPECT_EQ(v.verdict, "no, so far the model has learnt only how often each piece occurs");
  EXPECT_THAT(v.because, HasSubstr("a learning rate that is too high"));
  EXPECT_THAT(v.advice, Not(HasSubstr("for as many steps again")));
  EXPECT_THAT(v.advice, HasSubstr("`reigen train --config r/config.yaml --run r-lower-rate "
                                  "--schedule.rate 0.003`"));
  t.level.norm = 0.5;  // not clipped: the model may only need more steps
  t.plan.step = 200;
  v = text_of(t);
  EXPECT_THAT(v.because, HasSubstr("too few steps so far"));
  EXPECT_THAT(v.advice, HasSubstr("`reigen train --run r --max-steps 400` trains for as many steps "
                                  "again; if the loss still stands there, "));
  t.level = {.fault = LossLevel::Fault::kWorseThanGuessing,
             .unlike = true,
             .unlike_valid = 7.7,
             .unlike_train = 0.4,
             .valid = 7.7,
             .train = 0.4,
             .guessing = 7.6};
  v = text_of(t);
  EXPECT_EQ(v.verdict, "no, validation loss is worse than guessing");
  EXPECT_THAT(v.because, HasSubstr("validation text is unlike training text"));
  EXPECT_THAT(v.advice, Not(HasSubstr("rate")));
}

TEST(Wording, ARunThatGotWorseStartsAnewWithALowerRate) {
  Trained t;
  t.answer = Trained::Answer::kGettingWorse;
  t.run = "r";
  t.schedule = ScheduleOptions{.kind = ScheduleKind::kNoam, .factor = 3};
  t.trend = {.best_step = 300, .best = 3.5, .last = 4};
  const VerdictText v = text_of(t);
  EXPECT_EQ(v.verdict, "no, getting worse since step 300");
  EXPECT_THAT(v.advice, HasSubstr("--schedule.factor 1`"));
  EXPECT_THAT(v.advice, HasSubstr("`reigen translate --model r/best-loss`"));
}

TEST(Wording, ADivergedRunNamesItsStep) {
  Trained t;
  t.answer = Trained::Answer::kDiverged;
  t.step = 101;
  t.stopped = true;
  t.skipped_steps = 1;
  EXPECT_EQ(text_of(t).verdict, "no, diverged at step 101");
  EXPECT_THAT(text_of(t).because, HasSubstr("after skipping 1 step"));
}

TEST(Wording, OverfittingNamesTheCheckpointToUse) {
  Overfitting o;
  o.answer = Overfitting::Answer::kYes;
  o.run = "r";
  o.dropout = false;
  o.trend = {.best_step = 300, .best = 3, .last = 4.2, .later = 4};
  const VerdictText v = text_of(o);
  EXPECT_EQ(v.verdict, "yes, since step 300");
  EXPECT_THAT(v.advice, HasSubstr("r/best-loss`, whose validation loss is lower by 1.200"));
  EXPECT_THAT(v.because, Not(HasSubstr("dropout")));
  o.dropout = true;
  EXPECT_THAT(text_of(o).because, HasSubstr("training loss (with dropout)"));
  o = {};
  o.evaluations = 1;
  EXPECT_EQ(text_of(o).because, "a verdict needs 3 evaluations, and the run has 1");
}

// Where the last evaluation is the best, nothing is compared with itself.
TEST(Wording, ABestThatIsTheLastIsToldOnce) {
  Overfitting o;
  o.answer = Overfitting::Answer::kNo;
  o.trend = {
      .best_step = 300, .best = 3, .last = 3, .later = 0, .train_at_best = 2, .train_now = 2};
  EXPECT_THAT(text_of(o).because, HasSubstr("validation loss is 3.000, its best so far"));
  EXPECT_THAT(text_of(o).because, Not(HasSubstr("then")));
}

}  // namespace
}  // namespace reigen
