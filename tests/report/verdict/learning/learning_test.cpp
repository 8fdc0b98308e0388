// Verdicts on learning: synthetic runs with one known course of their losses each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/verdict/learning/learning.h"
#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

LearningContext context_with(const TrainOptions& options) {
  return {.run = "runs/first", .options = options};
}

void evaluate(RunSummary& run, uint64_t step, double valid, double train) {
  StepRecord record;
  record.step = step;
  record.nll = record.loss = train;
  record.seconds = 1;
  run.add(0, record);
  EvaluationRecord evaluation;
  evaluation.step = step;
  evaluation.nll = valid;
  run.add(0, evaluation);
}

TEST(Overfitting, BeginsAtTheBestValidationLoss) {
  RunSummary run;
  const double valid[] = {5, 4, 3, 3.2, 3.5, 3.9, 4.2};
  for (uint64_t i = 0; i < 7; ++i) {
    evaluate(run, 100 * (i + 1), valid[i], 5 - 0.6 * static_cast<double>(i));
  }
  EXPECT_EQ(overfitting(run).answer, Overfitting::Answer::kYes);
  EXPECT_EQ(overfitting(run).trend.best_step, 300);
  EXPECT_EQ(trained(run).answer, Trained::Answer::kPastItsBest);
}

// One easy batch just before the last evaluation does not make training loss fall.
TEST(Overfitting, TrainingLossIsTheMeanSinceThePreviousEvaluation) {
  RunSummary run;
  const double valid[] = {4, 3, 3.3, 3.6};
  for (uint64_t i = 0; i < 4; ++i) {
    for (uint64_t step = 1; step <= 10; ++step) {
      StepRecord record;
      record.step = 10 * i + step;
      record.nll = record.loss = i == 3 && step == 10 ? 1 : 3;
      run.add(0, record);
    }
    run.add(0, EvaluationRecord{.step = 10 * (i + 1), .nll = valid[i]});
  }
  EXPECT_NEAR(loss_trend(run)->train_now, 2.8, 1e-9);
  EXPECT_NEAR(loss_trend(run)->gap(), 0.8, 1e-9);
}

TEST(Overfitting, AFallingLossIsNotOverfitting) {
  RunSummary run;
  for (uint64_t i = 1; i < 7; ++i) {
    evaluate(run, 100 * i, 5 - 0.2 * static_cast<double>(i), 5 - 0.3 * static_cast<double>(i));
  }
  EXPECT_EQ(overfitting(run).answer, Overfitting::Answer::kNo);
  EXPECT_EQ(overfitting(RunSummary()).answer, Overfitting::Answer::kUnknown);
}

TEST(Overfitting, IsNearWhereTrainingLossFallsAndValidationLossDoesNot) {
  RunSummary run;
  for (uint64_t i = 1; i <= 12; ++i) {
    const auto t = static_cast<double>(i);
    StepRecord record{.step = 100 * i, .epoch = 2 * t, .loss = 1, .seconds = 1};
    record.nll = 4 / std::sqrt(t);
    run.add(0, record);
    run.add(0, EvaluationRecord{.step = 100 * i, .nll = 3 + 2 * std::pow(t, -3)});
  }
  const Overfitting o = overfitting(run);
  EXPECT_EQ(o.answer, Overfitting::Answer::kNear);
  EXPECT_LT(o.speed, kNearTurn);
  EXPECT_NE(o.confidence, Confidence::kHigh);
}

TEST(Trained, ARunStoppedEarlyStillImproves) {
  RunSummary run;
  for (uint64_t step = 100; step <= 1000; step += 100) {
    const double loss = 1.5 + 60 / std::sqrt(static_cast<double>(step));
    evaluate(run, step, loss, loss);
  }
  const Trained t = trained(run);
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.evidence, Trained::Evidence::kPrediction);
  ASSERT_EQ(t.gains.size(), 3U);
  for (const ExpectedGain& gain : t.gains) {
    const double came = 60 / std::sqrt(1000.0) - 60 / std::sqrt(1000 * (1 + gain.more));
    EXPECT_LT(gain.low, came) << gain.more;
    EXPECT_GT(gain.high, came) << gain.more;
  }
}

// The loss has turned within the last evaluations, and training loss is far below: more steps are
// not said to help.
TEST(Trained, ARunAtTheBendIsNotImproving) {
  RunSummary run;
  const double valid[] = {6, 5.2, 4.8, 4.55, 4.4, 4.31, 4.26, 4.23, 4.215, 4.212, 4.215};
  for (uint64_t i = 0; i < 11; ++i) {
    evaluate(run, 100 * (i + 1), valid[i], 5.8 - 1.35 * std::log(1 + static_cast<double>(i)));
  }
  const Trained t = trained(run);
  EXPECT_NE(t.answer, Trained::Answer::kImproving);
  ASSERT_EQ(t.gains.size(), 3U);
  EXPECT_LT(t.gains[1].low, 0);
}

TEST(Trained, AFewEvaluationsOnlyShowThatTheLossStillFalls) {
  auto verdict_of = [](const std::vector<double>& losses) {
    RunSummary run;
    uint64_t step = 0;
    for (const double loss : losses) evaluate(run, step += 100, loss, loss);
    return trained(run);
  };
  const Trained falling = verdict_of({5, 4.2, 3.9});
  EXPECT_EQ(falling.answer, Trained::Answer::kImproving);
  EXPECT_EQ(falling.evidence, Trained::Evidence::kTooFew);
  EXPECT_EQ(falling.confidence, Confidence::kLow);
  EXPECT_EQ(verdict_of({5, 4.95}).answer, Trained::Answer::kUnknown);
  EXPECT_EQ(verdict_of({5, 3, 4}).answer, Trained::Answer::kUnknown);
  EXPECT_EQ(verdict_of({5}).answer, Trained::Answer::kUnknown);
  EXPECT_EQ(verdict_of({}).answer, Trained::Answer::kUnknown);
}

TEST(Trained, ALossThatRisesWhileTrainingDoesNotFallIsGettingWorse) {
  RunSummary run;
  const double valid[] = {5, 4, 3.5, 3.6, 3.8, 4.1};
  for (uint64_t i = 0; i < 6; ++i) evaluate(run, 100 * (i + 1), valid[i], valid[i] - 0.1);
  EXPECT_EQ(trained(run).answer, Trained::Answer::kGettingWorse);
  EXPECT_EQ(trained(run).trend.best_step, 300);
  EXPECT_EQ(overfitting(run).answer, Overfitting::Answer::kNo);
}

TEST(Trained, IsUnknownWhereLossesScatter) {
  RunSummary run;
  for (uint64_t i = 1; i <= 8; ++i) {
    evaluate(run, 100 * i, 3 + (i % 2 == 0 ? 0.2 : -0.2), 3);
  }
  run.add(0, EvaluationRecord{.step = 900, .nll = 2.81});
  EXPECT_EQ(trained(run).answer, Trained::Answer::kUnknown);
  EXPECT_EQ(trained(run).evidence, Trained::Evidence::kScatter);
}

// The learning rate is 0 since step 400, and the losses are equal since then.
TEST(Trained, ARunAtRateZeroIsAsFarAsItsScheduleGoes) {
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::kCosine, .rate = 0.002, .decay_steps = 400};
  options.max_steps = 600;
  RunSummary run;
  run.add(0, StartRecord{.last_step = 600});
  for (uint64_t step = 25; step <= 600; step += 25) {
    const double s = std::min(400.0, static_cast<double>(step));
    evaluate(run, step, 0.3 + 20 / s, 0.3 + 20 / s);
  }
  const Trained t = trained(run, context_with(options));
  EXPECT_EQ(t.answer, Trained::Answer::kScheduleOver);
  EXPECT_EQ(t.confidence, Confidence::kHigh);
  EXPECT_TRUE(t.gains.empty());
  EXPECT_NEAR(t.rate_since, 400, 30);
  EXPECT_EQ(t.rate, 0);
}

TEST(Trained, TheEndOfACosineIsKnownBeforeItComes) {
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::kCosine, .rate = 0.002, .decay_steps = 400};
  RunSummary run;
  for (uint64_t step = 25; step <= 400; step += 25) {
    const auto s = static_cast<double>(step);
    evaluate(run, step, 0.3 + 20 / s, 0.3 + 20 / s);
  }
  EXPECT_EQ(trained(run, context_with(options)).answer, Trained::Answer::kScheduleOver);
  options.schedule.kind = ScheduleKind::kFixed;
  EXPECT_EQ(trained(run, context_with(options)).answer, Trained::Answer::kImproving);
}

// A decay that was over before the model had learnt anything is the reason, not the rate.
TEST(Trained, ARateThatFellTooEarlyIsTheEndOfItsScheduleAndNotUseless) {
  TrainOptions options;
  options.schedule = {
      .kind = ScheduleKind::kExponential, .rate = 0.002, .decay_steps = 15, .decay_rate = 0.3};
  RunSummary run;
  run.add(0, StartRecord{.vocabulary = 2000, .piece_entropy = 5.475});
  for (uint64_t step = 30; step <= 300; step += 30) {
    StepRecord record{.step = step, .epoch = 0.1, .loss = 1, .rate = 1e-9, .norm = 0.5};
    record.nll = 5.694;
    run.add(0, record);
    run.add(0, EvaluationRecord{.step = step, .nll = 5.694 + (step == 30 ? 0.5 : 0)});
  }
  const Trained t = trained(run, context_with(options));
  EXPECT_EQ(t.answer, Trained::Answer::kScheduleOver);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kFrequenciesOnly);
  EXPECT_TRUE(t.gains.empty());
  EXPECT_THAT(text_of(t).advice, testing::HasSubstr("--schedule.decay-steps 450"));
  options.schedule = {.kind = ScheduleKind::kFixed, .rate = 0.002};
  EXPECT_EQ(trained(run, context_with(options)).answer, Trained::Answer::kUseless);
}

TEST(Trained, WithinItsWarmUpARunIsToldSoAndOfferedNoDecay) {
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::kFixed, .rate = 0.002, .warmup_steps = 4000};
  RunSummary run;
  run.add(0, StartRecord{.last_step = 1000});
  for (uint64_t step = 100; step <= 1000; step += 100) {
    const double loss = 1.5 + 60 / std::sqrt(static_cast<double>(step));
    evaluate(run, step, loss, loss);
  }
  const Trained t = trained(run, context_with(options));
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.warmup_end, 4000);
  EXPECT_FALSE(t.of_decay);
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("warm-up (step 1,000 of 4,000)"));
  EXPECT_THAT(text_of(t).advice, testing::HasSubstr("--schedule.warmup-steps 100"));
  options.schedule.warmup_steps = 200;
  EXPECT_EQ(trained(run, context_with(options)).warmup_end, 0);
  EXPECT_TRUE(trained(run, context_with(options)).of_decay);
}

TEST(Trained, ALossThatLevelledOffWithoutUseOfItsSourcesIsUseless) {
  auto run_with = [](double rotated, double train = 4.88) {
    RunSummary run;
    run.add(0, StartRecord{.vocabulary = 2000, .piece_entropy = 5.475});
    for (uint64_t step = 1000; step <= 20'000; step += 1000) {
      evaluate(run, step, 4.9 + 0.1 * std::pow(static_cast<double>(step) / 1000, -2), train);
    }
    run.evaluations[15].probe_nll = 4.9;
    run.evaluations[15].rotated_nll = rotated;
    return run;
  };
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::kFixed, .rate = 0.002};
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.optimizer.weight_decay = 5;
  const Trained t = trained(run_with(4.92), context_with(options));
  EXPECT_EQ(t.answer, Trained::Answer::kUseless);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kUnusedSources);
  EXPECT_NE(t.confidence, Confidence::kHigh);
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("optimizer.weight-decay 5"));
  EXPECT_THAT(text_of(t).advice, testing::HasSubstr("--optimizer.weight-decay 0.01"));
  options.optimizer.weight_decay = 0.01;
  EXPECT_THAT(text_of(trained(run_with(4.92), context_with(options))).advice,
              testing::HasSubstr("--schedule.rate 0.0002"));
  EXPECT_EQ(trained(run_with(6), context_with(options)).answer, Trained::Answer::kYes);
  // Training loss is lower: the fault is rather with the validation pairs.
  EXPECT_EQ(trained(run_with(4.92, 3), context_with(options)).answer, Trained::Answer::kYes);
}

// What is worse than guessing is not past its best, even if it gets worse while training loss
// falls.
TEST(Trained, AModelThatNeverBeatGuessingIsNotPastItsBest) {
  RunSummary run;
  run.add(0, StartRecord{.vocabulary = 2000, .piece_entropy = 5.5});
  for (uint64_t i = 1; i <= 10; ++i) {
    const auto t = static_cast<double>(i);
    StepRecord record{.step = 100 * i, .epoch = 2 * t, .loss = 1, .rate = 0.002, .seconds = 1};
    record.nll = 3 / t;
    run.add(0, record);
    run.add(0, EvaluationRecord{.step = 100 * i, .nll = 7.65 + 0.05 * std::abs(t - 5)});
  }
  EXPECT_EQ(overfitting(run).answer, Overfitting::Answer::kYes);
  const Trained t = trained(run, context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kUseless);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kWorseThanGuessing);
}

TEST(Overfitting, CannotBeToldWhereValidationPairsAreTrainingPairs) {
  RunSummary run;
  for (uint64_t i = 1; i < 9; ++i) {
    evaluate(run, 100 * i, 5 - 0.2 * static_cast<double>(i), 5 - 0.3 * static_cast<double>(i));
  }
  LearningContext context = context_with({});
  context.data = {.known = true, .validation_pairs = 500, .leaked = 49};
  EXPECT_EQ(overfitting(run, context).answer, Overfitting::Answer::kNo);
  context.data.leaked = 500;
  const Overfitting o = overfitting(run, context);
  EXPECT_EQ(o.answer, Overfitting::Answer::kUnknown);
  EXPECT_THAT(text_of(o).because, testing::HasSubstr("500 pairs"));
  EXPECT_LE(trained(run, context).confidence, Confidence::kLow);
}

// The record of a run may come from elsewhere: a schedule with too few values is none.
TEST(Trained, AScheduleThatMakesNoCurveIsAConstantRate) {
  TrainOptions options;
  options.schedule = {
      .kind = ScheduleKind::kPiecewise, .boundaries = {100, 200, 300}, .values = {0.1}};
  RunSummary run;
  for (uint64_t step = 100; step <= 1000; step += 100) {
    evaluate(run, step, 2 + 100 / static_cast<double>(step), 2);
  }
  const LearningCurve curve = learning_curve(run, context_with(options));
  EXPECT_EQ(curve.rate(250), curve.rate(1));
  EXPECT_NE(trained(run, context_with(options)).answer, Trained::Answer::kScheduleOver);
}

TEST(Trained, ARunStoppedInItsPlanKnowsHowMuchOfItIsDone) {
  TrainOptions options;
  options.schedule = {.kind = ScheduleKind::kNoam, .warmup_steps = 200};
  RunSummary run;
  run.add(0, StartRecord{.last_step = 600});
  for (uint64_t step = 1; step <= 31; ++step) {
    StepRecord record{.step = step, .loss = 9 - 0.1 * static_cast<double>(step), .seconds = 1};
    record.nll = record.loss;
    run.add(0, record);
  }
  run.add(0, EndRecord{.step = 31, .reason = "signal"});
  const Trained t = trained(run, context_with(options));
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.evidence, Trained::Evidence::kTooFew);
  EXPECT_EQ(t.confidence, Confidence::kLow);
  EXPECT_EQ(t.plan.last, 600);
  EXPECT_NEAR(t.plan.share(), 31 / 600.0, 1e-9);
}

RunSummary run_at_level(double valid, double train, double fall, double epochs_per_step,
                        std::optional<double> bleu = {}) {
  RunSummary run;
  run.add(0, StartRecord{.vocabulary = 2000, .piece_entropy = 5.6});
  for (uint64_t i = 1; i <= 10; ++i) {
    const auto t = static_cast<double>(i);
    StepRecord record{.step = 100 * i,
                      .epoch = 100 * t * epochs_per_step,
                      .loss = 1,
                      .rate = 0.03,
                      .norm = 7,
                      .seconds = 1};
    record.nll = train + fall / t;
    run.add(0, record);
    run.add(0, EvaluationRecord{.step = 100 * i, .nll = valid + fall / t, .bleu = bleu});
  }
  return run;
}

TEST(Level, AValidationLossAboveThatOfGuessingIsUseless) {
  const RunSummary run = run_at_level(7.7, 0.4, 0.1, 1e-4);
  const Trained t = trained(run, context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kUseless);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kWorseThanGuessing);
  EXPECT_TRUE(t.level.unlike);
  EXPECT_NEAR(t.level.guessing, std::log(2000), 1e-9);
}

TEST(Level, ALossThatStandsAtTheEntropyOfSinglePiecesIsUseless) {
  const RunSummary run = run_at_level(5.55, 5.6, 0.02, 1e-4);
  const Trained t = trained(run, context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kUseless);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kFrequenciesOnly);
  EXPECT_FALSE(t.level.unlike);
  EXPECT_GT(t.level.norm, t.level.clip);
  // Still falling, it is not stuck.
  EXPECT_NE(trained(run_at_level(5.4, 5.4, 2, 1e-4), context_with({})).answer,
            Trained::Answer::kUseless);
}

TEST(Level, ALossThatJumpsWhileItStandsIsUselessToo) {
  RunSummary run = run_at_level(5.55, 5.6, 0.02, 1e-4);
  run.evaluations[4].nll = 5.9;  // in the middle of the run: what comes later is lower
  EXPECT_EQ(loss_level(run, context_with({})).fault, LossLevel::Fault::kFrequenciesOnly);
}

// A run whose rate is far too low or far too high: where the loss stands, how far weights can have
// moved, and whether gradients are clipped.
LossLevel level_of(double valid, double fall, double rate, double norm = 0.5) {
  RunSummary run;
  run.add(0, StartRecord{.vocabulary = 600, .piece_entropy = 5.378});
  for (uint64_t step = 1; step <= 400; ++step) {
    StepRecord record{.step = step, .epoch = 0.1, .loss = 1, .rate = rate, .norm = norm};
    record.nll = valid + fall * (1 - static_cast<double>(step) / 400);
    run.add(0, record);
    if (step % 20 == 0) run.add(0, EvaluationRecord{.step = step, .nll = record.nll});
  }
  return loss_level(run, context_with({}));
}

TEST(Level, ARateThatIsTooLowIsNotCalledTooHigh) {
  // As measured at rates of 1e-6 (post-norm, gradients just clipped) and 3e-5 (pre-norm).
  for (const LossLevel& level : {level_of(7.102, 0.03, 1e-6, 1.05), level_of(6.336, 0.77, 3e-5)}) {
    EXPECT_EQ(level.fault, LossLevel::Fault::kHardlyLearns);
    EXPECT_TRUE(level.rate_too_low());
    EXPECT_LT(level.travel, 0.013);
  }
  // A higher rate: the same loss is that of guessing, or stands above piece frequencies.
  EXPECT_EQ(level_of(7.102, 0.03, 0.1, 7).fault, LossLevel::Fault::kWorseThanGuessing);
  const LossLevel stands = level_of(6.1, 0.05, 0.1, 7);
  EXPECT_EQ(stands.fault, LossLevel::Fault::kHardlyLearns);
  EXPECT_FALSE(stands.rate_too_low());
  EXPECT_EQ(level_of(6.1, 1, 0.1, 7).fault, LossLevel::Fault::kNone);  // it falls
}

// After many epochs a gap may be memory, but a loss that never fell below piece frequencies is not.
TEST(Level, AModelThatLearnsItsTrainingTextDoesNotHardlyLearn) {
  const Trained t = trained(run_at_level(6.5, 3, 0.02, 1), context_with({}));
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kUnlikeValidation);
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("the best validation loss is 6.502"));
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("validation text of a different kind"));
}

TEST(Level, FrequenciesOnlyIsALossNearTheirEntropy) {
  EXPECT_EQ(level_of(5.15, 0.05, 0.1).fault, LossLevel::Fault::kFrequenciesOnly);
  EXPECT_EQ(level_of(5.85, 0.05, 0.1).fault, LossLevel::Fault::kFrequenciesOnly);
  EXPECT_EQ(level_of(5.95, 0.05, 0.1).fault, LossLevel::Fault::kHardlyLearns);
  EXPECT_EQ(level_of(5.05, 0.05, 0.1).fault, LossLevel::Fault::kNone);
  // A low rate alone is no fault: this run has learnt something.
  EXPECT_EQ(level_of(5.5, 1, 1e-5).fault, LossLevel::Fault::kNone);
}

// Training loss of 400 steps by `loss`, with an evaluation after every 20.
RunSummary run_of(const std::function<double(uint64_t step)>& loss) {
  RunSummary run;
  for (uint64_t step = 1; step <= 400; ++step) {
    StepRecord record{.step = step, .epoch = 0.1, .loss = 1, .rate = 0.004};
    const double noise = 0.1 * std::sin(12.9 * static_cast<double>(step * step));
    record.nll = loss(step) + noise;
    record.norm = record.nll > 5 ? 9 : 0.5;
    run.add(0, record);
    if (step % 20 == 0) run.add(0, EvaluationRecord{.step = step, .nll = loss(step)});
  }
  return run;
}

double falling(uint64_t step) { return 1 + 6 / std::sqrt(static_cast<double>(step)); }

TEST(Rises, NoneInALossThatFallsOrStands) {
  EXPECT_TRUE(loss_rises(run_of(falling)).empty());
  EXPECT_TRUE(loss_rises(run_of([](uint64_t) { return 3.0; })).empty());
  // Slowly rising by a tenth in all.
  EXPECT_TRUE(loss_rises(run_of([](uint64_t step) {
                return 3 + 0.3 * static_cast<double>(step) / 400;
              })).empty());
}

TEST(Rises, ASpikeHasItsStepsAndItsGradientNorm) {
  const auto spike = [](uint64_t step) {
    return falling(step) + (step > 200 && step <= 228 ? 5 : 0);
  };
  const std::vector<LossRise> rises = loss_rises(run_of(spike));
  ASSERT_EQ(rises.size(), 1U);
  EXPECT_EQ(rises[0].step, 201);
  EXPECT_EQ(rises[0].end, 229);
  EXPECT_NEAR(rises[0].before, falling(199), 0.1);
  EXPECT_NEAR(rises[0].after, falling(215) + 5, 0.5);
  EXPECT_NEAR(rises[0].norm_before, 0.5, 1e-9);
  EXPECT_NEAR(rises[0].norm_after, 9, 0.5);
  const Trained t = trained(run_of(spike));
  EXPECT_NE(t.answer, Trained::Answer::kDiverged);
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("and was back at step 2"));
}

TEST(Rises, OneThatLastsIsADivergence) {
  const RunSummary run =
      run_of([](uint64_t step) { return step < 300 ? falling(step) : 6 + 0.2 * (step % 3); });
  const Trained t = trained(run, context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kDiverged);
  EXPECT_FALSE(t.stopped);
  EXPECT_NEAR(static_cast<double>(t.step), 300, 4);
  const VerdictText v = text_of(t);
  EXPECT_THAT(v.verdict, testing::HasSubstr("diverged at step"));
  EXPECT_THAT(v.because, testing::HasSubstr("has not come back"));
  EXPECT_THAT(v.advice, testing::HasSubstr("best-loss"));
}

TEST(Trained, ManySkippedStepsAreTold) {
  RunSummary run = run_of(falling);
  for (uint64_t step = 401; step <= 430; ++step) {
    run.add(0, StepRecord{.step = step, .loss_scale = 1024, .skipped = true});
  }
  const Trained t = trained(run);
  EXPECT_NEAR(t.skipped_share, 30 / 430.0, 1e-9);
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("7% of the steps (30) changed nothing"));
  EXPECT_THAT(text_of(t).because, testing::HasSubstr("fp16"));
  EXPECT_THAT(text_of(t).advice, testing::HasSubstr("--run RUN-bf16 --precision bf16`"));
  EXPECT_THAT(text_of(trained(run_of(falling))).because,
              testing::Not(testing::HasSubstr("changed nothing")));
}

TEST(Overfitting, DropoutThatIsTooHighHoldsTrainingLossAboveValidationLoss) {
  const auto with_dropout = [](double dropout, double train) {
    TrainOptions options;
    options.dropout = {dropout, dropout, dropout, dropout};
    RunSummary run;
    for (uint64_t i = 1; i <= 10; ++i) {
      evaluate(run, 100 * i, 2 + 1.0 / static_cast<double>(i), train);
    }
    return overfitting(run, context_with(options));
  };
  const Overfitting o = with_dropout(0.5, 3);
  EXPECT_EQ(o.answer, Overfitting::Answer::kNo);
  EXPECT_EQ(o.less_dropout, 0.25);
  EXPECT_THAT(text_of(o).advice,
              testing::HasSubstr("--run runs/first-less-dropout --dropout 0.25"));
  EXPECT_EQ(with_dropout(0.1, 3).less_dropout, 0);
  EXPECT_EQ(with_dropout(0.5, 2.25).less_dropout, 0);
  EXPECT_EQ(with_dropout(0.5, 2.35).less_dropout, 0.25);
}

// What few pairs show may be chance.
TEST(Trained, FewValidationPairsCapTheConfidence) {
  RunSummary run;
  for (uint64_t step = 100; step <= 2000; step += 100) {
    const double loss = 1.5 + 60 / std::sqrt(static_cast<double>(step));
    evaluate(run, step, loss, loss);
  }
  LearningContext context;
  context.data = {.known = true, .validation_pairs = 99};
  EXPECT_EQ(trained(run).confidence, Confidence::kHigh);
  EXPECT_EQ(overfitting(run).confidence, Confidence::kHigh);
  EXPECT_EQ(trained(run, context).confidence, Confidence::kMedium);
  EXPECT_EQ(overfitting(run, context).confidence, Confidence::kMedium);
  context.data.validation_pairs = 100;
  EXPECT_EQ(trained(run, context).confidence, Confidence::kHigh);
}

// Source and target swapped in the validation pairs: training loss falls, validation loss cannot.
TEST(Level, AValidationLossThatStandsFarAboveTrainingLossInTheFirstEpochCannotJudge) {
  RunSummary run = run_at_level(7.3, 3, 0, 1e-4);
  for (size_t i = 3; i < run.evaluations.size(); ++i) run.evaluations[i].nll = 7.5;
  const Trained t = trained(run, context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kUseless);
  EXPECT_EQ(t.level.fault, LossLevel::Fault::kUnlikeValidation);
  EXPECT_EQ(t.confidence, Confidence::kMedium);
  const VerdictText v = text_of(t);
  EXPECT_EQ(v.verdict, "cannot be judged by this validation text");
  EXPECT_THAT(v.because, testing::HasSubstr("direction"));
  EXPECT_THAT(v.advice, testing::HasSubstr("`reigen prepare --valid`"));
  // Where it falls, it still says something.
  EXPECT_NE(trained(run_at_level(7.3, 3, 2, 1e-4), context_with({})).level.fault,
            LossLevel::Fault::kUnlikeValidation);
}

TEST(Overfitting, NothingOfTheFirstEpochIsMemory) {
  const auto turned = [](double epochs_per_step) {
    RunSummary run = run_at_level(4, 3.9, 1, epochs_per_step);
    for (size_t i = 5; i < run.evaluations.size(); ++i) run.evaluations[i].nll = 4.5;
    return run;
  };
  EXPECT_EQ(overfitting(turned(1), context_with({})).answer, Overfitting::Answer::kYes);
  const Overfitting early = overfitting(turned(1e-4), context_with({}));
  EXPECT_EQ(early.answer, Overfitting::Answer::kNo);
  EXPECT_TRUE(early.turned);
  EXPECT_NE(early.confidence, Confidence::kHigh);
  const Trained t = trained(turned(1e-4), context_with({}));
  EXPECT_EQ(t.answer, Trained::Answer::kPastItsBest);
  EXPECT_THAT(text_of(t).because, testing::Not(testing::HasSubstr("overfits")));
}

TEST(Level, AGapWithinTheFirstEpochIsADifferentKindOfText) {
  EXPECT_TRUE(loss_level(run_at_level(4, 3, 1, 1e-4), context_with({})).unlike);
  EXPECT_FALSE(loss_level(run_at_level(4, 3.9, 1, 1e-4), context_with({})).unlike);
  // After many epochs the gap may as well be overfitting.
  EXPECT_FALSE(loss_level(run_at_level(4, 3, 1, 1), context_with({})).unlike);
}

// Pairs that repeat within an epoch may be memory in the first one.
TEST(Level, AGapWithinTheFirstEpochOfRepeatedPairsSaysNothingOfTheirKind) {
  const RunSummary run = run_at_level(2, 1, 1, 1e-4);
  LearningContext context = context_with({});
  EXPECT_TRUE(loss_level(run, context).unlike);
  context.data.repeats = true;
  EXPECT_FALSE(loss_level(run, context).unlike);
  EXPECT_EQ(data_health(run, context).faults, std::vector{DataHealth::Fault::kRepeatedTraining});
}

TEST(Level, ALowLossWithoutBleuIsAFaultOfTheText) {
  EXPECT_EQ(loss_level(run_at_level(0.8, 0.8, 0.1, 1e-4, 0.3), context_with({})).fault,
            LossLevel::Fault::kUselessBleu);
  // 35% of the entropy of single pieces: targets in a random order are learnt as text, too.
  EXPECT_EQ(loss_level(run_at_level(1.8, 1.8, 0.1, 1e-4, 0.3), context_with({})).fault,
            LossLevel::Fault::kUselessBleu);
  EXPECT_EQ(loss_level(run_at_level(2.2, 2.2, 0.1, 1e-4, 0.3), context_with({})).fault,
            LossLevel::Fault::kNone);
  EXPECT_EQ(loss_level(run_at_level(0.8, 0.8, 0.1, 1e-4, 40), context_with({})).fault,
            LossLevel::Fault::kNone);
  EXPECT_EQ(loss_level(run_at_level(0.8, 0.8, 0.1, 1e-4), context_with({})).fault,
            LossLevel::Fault::kNone);
}

TEST(Trained, ARunThatDivergedIsNotTrained) {
  RunSummary run;
  evaluate(run, 100, 3, 3);
  StepRecord skipped;
  skipped.step = 101;
  skipped.skipped = true;
  run.add(0, skipped);
  run.add(0, EndRecord{.step = 101, .reason = "diverged"});
  EXPECT_EQ(trained(run).answer, Trained::Answer::kDiverged);
  EXPECT_EQ(trained(run).step, 101U);
  EXPECT_EQ(trained(run).skipped_steps, 1U);
}

TEST(Trained, AFlatCurveIsTrained) {
  RunSummary run;
  for (uint64_t step = 1000; step <= 20'000; step += 1000) {
    evaluate(run, step, 1.5 + std::pow(static_cast<double>(step) / 1000, -2), 1.4);
  }
  EXPECT_EQ(trained(run).answer, Trained::Answer::kYes);
}

// Losses of wsd: flat before the decay, which begins after step 1,000, and falling in it.
RunSummary decaying_run(uint64_t last_step, double slope = 0) {
  RunSummary run;
  run.add(0, StartRecord{.last_step = 2000});
  for (uint64_t step = 100; step <= last_step; step += 100) {
    const auto s = static_cast<double>(step);
    const double stable = 3 + slope / s;
    evaluate(run, step, step <= 1000 ? stable : stable - 0.5 * (s - 1000) / 1000, 3);
  }
  return run;
}

Trained trained_with(const RunSummary& run, ScheduleKind kind = ScheduleKind::kWsd) {
  TrainOptions options;
  options.max_epochs = 3;
  options.schedule.kind = kind;
  options.schedule.warmup_steps = 50;
  return trained(run, context_with(options));
}

TEST(Trained, AStablePhaseIsNotTheEndOfWsd) {
  const RunSummary run = decaying_run(1000);
  const Trained t = trained_with(run);
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.evidence, Trained::Evidence::kDecay);
  EXPECT_EQ(t.phase, RateDecay::Phase::kBefore);
  ASSERT_TRUE(t.to_end.has_value());
  EXPECT_GT(t.to_end->gain, 0);
  EXPECT_FALSE(t.of_decay.has_value());  // one is planned
  EXPECT_EQ(trained_with(decaying_run(1500)).phase, RateDecay::Phase::kWithin);
  EXPECT_EQ(trained_with(decaying_run(1500)).answer, Trained::Answer::kImproving);
}

TEST(Trained, AfterADecayOnlyALongerRunGains) {
  const Trained t = trained_with(decaying_run(2000, 300));
  EXPECT_EQ(t.phase, RateDecay::Phase::kAfter);
  EXPECT_EQ(t.answer, Trained::Answer::kScheduleOver);
  ASSERT_TRUE(t.of_longer.has_value());
  EXPECT_GT(t.of_longer->gain, 0);
  EXPECT_TRUE(t.gains.empty());
}

TEST(Trained, ADecayThatCouldBeginNowHasAnExpectedGain) {
  RunSummary run;
  for (uint64_t step = 100; step <= 2000; step += 100) {
    const double loss = 2 + 300 / static_cast<double>(step + 100);
    evaluate(run, step, loss, loss);
  }
  const Trained t = trained_with(run, ScheduleKind::kFixed);
  ASSERT_TRUE(t.of_decay.has_value());
  EXPECT_EQ(t.decay_steps, 500);
  EXPECT_GT(t.of_decay->gain, 0);
}

TEST(Trained, WsdWithoutAKnownEndHasItsDecayAhead) {
  RunSummary run;
  for (uint64_t step = 100; step <= 1000; step += 100) evaluate(run, step, 3, 3);
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kBefore);
  run.add(0, DecayRecord{.step = 900, .steps = 100, .cause = "request"});
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kAfter);
  EXPECT_EQ(trained_with(run, ScheduleKind::kNoam).phase, RateDecay::Phase::kAfter);
  run.add(0, DecayRecord{.step = 1000, .steps = 0, .cause = "max-steps"});
  EXPECT_EQ(trained_with(run, ScheduleKind::kNoam).phase, RateDecay::Phase::kNone);
}

TEST(Trained, WithoutEvaluationsTheDecayIsNotTheReason) {
  RunSummary run;
  run.add(0, StartRecord{.last_step = 2000});
  run.add(0, StepRecord{.step = 2000, .loss = 3, .nll = 3});
  const Trained t = trained_with(run);
  EXPECT_EQ(t.answer, Trained::Answer::kUnknown);
  EXPECT_EQ(t.evidence, Trained::Evidence::kTooFew);
}

TEST(Trained, TheLastStepDecidesWhereTheDecayIs) {
  RunSummary run = decaying_run(1000);
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kBefore);
  run.add(0, StepRecord{.step = 1500, .loss = 3, .nll = 3});
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kWithin);
}

}  // namespace
}  // namespace reigen
