// Verdicts on synthetic runs that each have one cause.
#include "report/verdict/verdicts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/verdict/curve_fit.h"

namespace reigen {
namespace {

// Steps of one second in all: `own` of computing and `input`, the rest communication, for each
// rank.
RunSummary run_of(const std::vector<double>& own, double input = 0, int steps = 40) {
  RunSummary run;
  for (int step = 1; step <= steps; ++step) {
    for (size_t rank = 0; rank < own.size(); ++rank) {
      const Spans spans = {
          {"input", input}, {"backward", own[rank] - input}, {"communication", 1 - own[rank]}};
      if (rank == 0) {
        StepRecord record;
        record.step = static_cast<uint64_t>(step);
        record.seconds = 1;
        record.spans = spans;
        record.communication =
            CommunicationTimes{.min_wait = 1 - *std::max_element(own.begin(), own.end()),
                               .sent = 200'000,
                               .inter_node_bytes = 200'000};
        run.add(0, record);
      } else {
        run.add(static_cast<int>(rank),
                SpansRecord{
                    .step = static_cast<uint64_t>(step), .steps = 1, .seconds = 1, .spans = spans});
      }
    }
  }
  return run;
}

Cause bottleneck_of(const RunSummary& run) {
  const TimeShares shares = time_shares(run);
  EXPECT_NEAR(shares.input + shares.compute + shares.compression + shares.network +
                  shares.straggler + shares.contention + shares.evaluation + shares.checkpoint +
                  shares.other,
              shares.total, 1e-6);
  return bottleneck(run, shares).cause;
}

// The rank of the straggler; -1 where the cause is a different one.
int straggler_of(const RunSummary& run) {
  const Bottleneck b = bottleneck(run, time_shares(run));
  return b.cause == Cause::kStraggler ? b.rank : -1;
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

TEST(Bottleneck, IsTheCauseThatStepsWaitedFor) {
  EXPECT_EQ(bottleneck_of(run_of({0.99})), Cause::kCompute);
  EXPECT_EQ(bottleneck_of(run_of({0.99, 0.98, 0.99})), Cause::kCompute);
  EXPECT_EQ(bottleneck_of(run_of({0.3, 0.3})), Cause::kNetwork);
  EXPECT_EQ(bottleneck_of(run_of({0.99}, 0.6)), Cause::kInput);
}

TEST(Bottleneck, NamesTheRankTheOthersWaitFor) {
  EXPECT_EQ(straggler_of(run_of({0.4, 0.4, 0.98, 0.4})), 2);
  EXPECT_EQ(straggler_of(run_of({0.98, 0.4})), 0);
}

TEST(Bottleneck, ExtraWorkOfASlowRank0IsComputeInTheFigures) {
  RunSummary run = run_of({0.98, 0.1});
  run.add(0, StartRecord{.target_token_flops = 1, .capacity = 1e3});
  const TimeShares shares = time_shares(run);
  EXPECT_NEAR(shares.all_compute() / shares.total, 0.98, 1e-6);
  EXPECT_LT(shares.compute / shares.total, 0.2);
}

// All ranks compute for 0.2 seconds and wait for their input as long as given; then they wait for
// the last rank.
RunSummary run_with_inputs(const std::vector<double>& inputs) {
  RunSummary run;
  const double last = *std::max_element(inputs.begin(), inputs.end());
  for (uint64_t step = 1; step <= 40; ++step) {
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      const Spans spans = {{"input", inputs[rank]},
                           {"backward", 0.2},
                           {"communication", last - inputs[rank] + 0.05}};
      const CommunicationTimes times{.min_wait = 0.05};
      if (rank == 0) {
        run.add(0,
                StepRecord{
                    .step = step, .seconds = last + 0.25, .spans = spans, .communication = times});
      } else {
        run.add(static_cast<int>(rank), SpansRecord{.step = step,
                                                    .steps = 1,
                                                    .seconds = last + 0.25,
                                                    .spans = spans,
                                                    .communication = times});
      }
    }
  }
  return run;
}

TEST(Bottleneck, ARankThatWaitsForItsInputMakesInputTheBottleneck) {
  for (size_t late = 0; late < 3; ++late) {
    std::vector<double> inputs = {0.01, 0.01, 0.01};
    inputs[late] = 0.6;
    const RunSummary run = run_with_inputs(inputs);
    EXPECT_EQ(bottleneck_of(run), Cause::kInput) << late;
    const Bottleneck b = bottleneck(run, time_shares(run));
    EXPECT_EQ(b.confidence, Confidence::kHigh) << late;
    EXPECT_EQ(b.rank, static_cast<int>(late));
    EXPECT_EQ(b.advice, Advice::kFasterDiskOfRank);
    EXPECT_NEAR(b.shares.late_input, 0.59, 1e-6);
    EXPECT_NEAR(b.largest.share, 0.71, 0.005);
    for (const CauseShare& part : b.parts) EXPECT_NE(part.cause, Cause::kStraggler);
  }
  const RunSummary all = run_with_inputs({0.6, 0.6});
  EXPECT_EQ(bottleneck_of(all), Cause::kInput);
  EXPECT_EQ(time_shares(all).late_input_rank, -1);
}

// A run of one worker resumes with three, whose steps are shorter: no rank is slow.
TEST(Bottleneck, AChangedNumberOfWorkersIsNoStraggler) {
  RunSummary run;
  run.add(0, StartRecord{.workers = 1, .target_token_flops = 1, .capacity = 1e9});
  for (uint64_t step = 1; step <= 60; ++step) {
    const double mine = step <= 40 ? 0.9 : 0.3;
    if (step == 41) run.add(0, StartRecord{.step = 40, .workers = 3, .capacity = 3e9});
    StepRecord record;
    record.step = step;
    record.seconds = mine + 0.02;
    record.spans = {{"backward", mine}, {"communication", 0.02}};
    record.communication = CommunicationTimes{.min_wait = 0.02};
    run.add(0, record);
    if (step <= 40) continue;
    for (int rank : {1, 2}) {
      run.add(rank, SpansRecord{.step = step,
                                .steps = 1,
                                .seconds = 0.32,
                                .spans = {{"backward", 0.3}, {"communication", 0.02}}});
    }
  }
  const TimeShares shares = time_shares(run);
  EXPECT_FALSE(shares.comparable);
  EXPECT_EQ(bottleneck_of(run), Cause::kCompute);
  EXPECT_EQ(efficiency(run, shares).capacity, 0);
}

// A descheduled worker is also late within an exchange: both ranks wait, but not for the link. Its
// log has the time it was descheduled.
TEST(Bottleneck, ADescheduledWorkerIsTheStraggler) {
  auto run_with = [](double mine, double others) {
    RunSummary run;
    for (uint64_t step = 1; step <= 40; ++step) {
      StepRecord record;
      record.step = step;
      record.seconds = 1;
      record.descheduled_seconds = mine;
      record.spans = {{"backward", 0.2}, {"communication", 0.8}};
      record.communication = CommunicationTimes{.min_wait = 0.8};
      run.add(0, record);
      run.add(1, SpansRecord{.step = step,
                             .steps = 1,
                             .seconds = 1,
                             .descheduled_seconds = others,
                             .spans = {{"backward", 0.2}, {"communication", 0.8}}});
    }
    return run;
  };
  EXPECT_EQ(straggler_of(run_with(0, 0.75)), 1);
  EXPECT_EQ(straggler_of(run_with(0.75, 0)), 0);
  const RunSummary run = run_with(0, 0.75);
  EXPECT_EQ(bottleneck(run, time_shares(run)).advice, Advice::kInspectQuota);
  EXPECT_EQ(bottleneck_of(run_with(0, 0)), Cause::kNetwork);
  EXPECT_EQ(bottleneck_of(run_with(0.5, 0.5)), Cause::kNetwork);
}

// The ranks are late in turn, as on a busy host: none waited for a link.
TEST(Bottleneck, WorkersThatAreLateInTurnDoNotMakeItTheNetwork) {
  RunSummary run;
  for (uint64_t step = 1; step <= 40; ++step) {
    const double mine = step % 2 == 0 ? 0.4 : 0.0;
    StepRecord record;
    record.step = step;
    record.seconds = 1;
    record.spans = {{"backward", 1 - mine}, {"communication", mine}};
    record.communication = CommunicationTimes{.min_wait = 0};
    run.add(0, record);
    run.add(1, SpansRecord{.step = step,
                           .steps = 1,
                           .seconds = 1,
                           .spans = {{"backward", 0.6 + mine}, {"communication", 0.4 - mine}}});
  }
  EXPECT_EQ(bottleneck_of(run), Cause::kCompute);
}

// The same waiting with idle and with busy cores, on a link that could carry far more.
TEST(Bottleneck, ExchangesThatWaitForACoreAreNotTheNetwork) {
  auto run_with = [](double busy, double bandwidth) {
    RunSummary run = run_of({0.6, 0.6});
    run.add(0, PredictionRecord{.bandwidth = bandwidth, .latency = 1e-4});
    SampleRecord sample;
    sample.step = 20;
    sample.seconds = 40;
    sample.cores = {busy, busy};
    run.add(0, sample);
    return run;
  };
  EXPECT_EQ(bottleneck_of(run_with(50, 1e9)), Cause::kNetwork);
  EXPECT_EQ(bottleneck_of(run_with(100, 1e9)), Cause::kCompute);
  EXPECT_EQ(bottleneck_of(run_with(100, 1e6)), Cause::kNetwork);
}

TEST(Bottleneck, CompressionIsNotTheNetwork) {
  RunSummary run;
  for (uint64_t step = 1; step <= 40; ++step) {
    StepRecord record;
    record.step = step;
    record.seconds = 1;
    record.spans = {{"backward", 0.5}, {"compression", 0.4}, {"communication", 0.1}};
    run.add(0, record);
  }
  EXPECT_EQ(bottleneck_of(run), Cause::kCompression);
}

TEST(Bottleneck, ComparesComputeWithTheCapacityOfTheDevices) {
  RunSummary run;
  run.add(0, StartRecord{.source_token_flops = 1e6, .target_token_flops = 3e6, .capacity = 1e9});
  for (uint64_t step = 1; step <= 40; ++step) {
    StepRecord record;
    record.step = step;
    record.seconds = 1;
    record.source_tokens = record.target_tokens = 25;
    record.spans = {{"backward", 0.5}};
    run.add(0, record);
  }
  const TimeShares shares = time_shares(run);
  EXPECT_DOUBLE_EQ(efficiency(run, shares).achieved, 2e8);
  EXPECT_DOUBLE_EQ(efficiency(run, shares).share(), 0.2);
  EXPECT_EQ(bottleneck(run, shares).advice, Advice::kLargerProducts);
  EXPECT_EQ(efficiency(RunSummary(), {}).capacity, 0);
}

TEST(Bottleneck, EvaluationsAndCheckpointsCount) {
  RunSummary run = run_of({0.99});
  run.add(0, EvaluationRecord{.step = 40, .seconds = 60});
  EXPECT_EQ(bottleneck_of(run), Cause::kEvaluation);
  run.add(0, CheckpointRecord{.step = 40, .stall_seconds = 200});
  EXPECT_EQ(bottleneck_of(run), Cause::kCheckpoint);
  EXPECT_EQ(bottleneck(run, time_shares(run)).advice, Advice::kSaveLess);
}

TEST(Bottleneck, ThePredictionNamesTheCompression) {
  RunSummary run = run_of({0.5, 0.5});
  EXPECT_EQ(bottleneck(run, time_shares(run)).compression, CompressSetting{});
  run.add(0, PredictionRecord{.method = "int8"});
  EXPECT_EQ(bottleneck(run, time_shares(run)).compression.method, CompressMethod::kInt8);
  run.add(0, PredictionRecord{.method = "of a later version"});
  EXPECT_EQ(bottleneck(run, time_shares(run)).compression, CompressSetting{});
}

// Workers that share a host wait for each other, on GPUs because NCCL needs one worker for each.
TEST(Bottleneck, TheDeviceKindDecidesTheAdviceOnLocalExchange) {
  auto advice_on = [](const StartRecord& start) {
    RunSummary run = run_of({0.3, 0.3});
    run.add(0, start);
    SampleRecord sample;
    sample.step = 20;
    sample.seconds = 1;
    sample.cores = {10};
    sample.interfaces = {{.name = "lo", .used = true}};
    run.add(0, sample);
    const Bottleneck b = bottleneck(run, time_shares(run));
    EXPECT_EQ(b.cause, Cause::kLocalExchange);
    return b.advice;
  };
  EXPECT_EQ(advice_on({.workers = 2, .device_kind = "cpu"}), Advice::kFewerWorkers);
  EXPECT_EQ(advice_on({.workers = 2, .device_kind = "gpu"}), Advice::kOneWorkerPerGpu);
  // Logs of version 0.1 only have the description.
  EXPECT_EQ(advice_on({.workers = 2, .device = "2 threads"}), Advice::kFewerWorkers);
  EXPECT_EQ(advice_on({.workers = 2, .device = "H200 (GPU 0, 140 GB)"}), Advice::kOneWorkerPerGpu);
}

TEST(Bottleneck, AFifthBesideMuchComputeIsListedAndNotNamed) {
  RunSummary run = run_of({1.0});
  run.add(0, EvaluationRecord{.step = 40, .seconds = 10});
  const Bottleneck b = bottleneck(run, time_shares(run));
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_EQ(b.largest.cause, Cause::kEvaluation);
  EXPECT_NEAR(b.largest.share, 0.2, 0.01);
  ASSERT_EQ(b.parts.size(), 1U);
  EXPECT_EQ(b.parts[0].cause, Cause::kEvaluation);
}

TEST(Bottleneck, IsUnknownAfterFewSteps) {
  EXPECT_EQ(bottleneck_of(run_of({0.99}, 0, 5)), Cause::kUnknown);
  EXPECT_EQ(bottleneck_of(RunSummary()), Cause::kUnknown);
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

TEST(Trained, ARunStoppedEarlyStillImproves) {
  RunSummary run;
  for (uint64_t step = 100; step <= 1000; step += 100) {
    evaluate(run, step, 1.5 + 60 / std::sqrt(static_cast<double>(step)), 2);
  }
  EXPECT_EQ(trained(run).answer, Trained::Answer::kImproving);
  EXPECT_EQ(trained(run).evidence, Trained::Evidence::kCurve);
  EXPECT_EQ(trained(run).gains.size(), 3U);
}

// Stopped in the middle of learning: no curve that levels off above zero falls like that.
TEST(Trained, ARunStoppedWhileTheLossFallsSteeplyStillImproves) {
  RunSummary run;
  const double valid[] = {5.5, 5, 4.6, 4.1, 3.3, 2.2, 1.3, 0.8, 0.5, 0.35};
  for (uint64_t i = 0; i < 10; ++i) evaluate(run, 100 * (i + 1), valid[i], valid[i]);
  EXPECT_FALSE(fit_loss_curve(validation_losses(run)).has_value());
  const Trained t = trained(run);
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.evidence, Trained::Evidence::kTooSteep);
  EXPECT_EQ(t.confidence, Confidence::kMedium);
  // Once the loss levels off, it is unknown.
  evaluate(run, 1100, 0.349, 0.349);
  EXPECT_NE(trained(run).answer, Trained::Answer::kImproving);
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
  return trained(run, rate_decay(run, options));
}

TEST(Trained, AStablePhaseIsNotTheEndOfWsd) {
  const RunSummary run = decaying_run(1000);
  EXPECT_EQ(trained_with(run, ScheduleKind::kFixed).answer, Trained::Answer::kYes);
  const Trained t = trained_with(run);
  EXPECT_EQ(t.answer, Trained::Answer::kImproving);
  EXPECT_EQ(t.evidence, Trained::Evidence::kDecay);
  EXPECT_EQ(t.phase, RateDecay::Phase::kBefore);
  EXPECT_TRUE(t.gains.empty());
  EXPECT_EQ(trained_with(decaying_run(1500)).phase, RateDecay::Phase::kWithin);
  EXPECT_EQ(trained_with(decaying_run(1500)).answer, Trained::Answer::kImproving);
}

TEST(Trained, AFallInTheDecayIsNotExtrapolated) {
  const RunSummary flat = decaying_run(2000);
  EXPECT_EQ(trained_with(flat, ScheduleKind::kFixed).answer, Trained::Answer::kImproving);
  const Trained t = trained_with(flat);
  EXPECT_EQ(t.phase, RateDecay::Phase::kAfter);
  EXPECT_EQ(t.answer, Trained::Answer::kYes);
  EXPECT_EQ(t.losses.back().first, 1000);
  EXPECT_EQ(trained_with(decaying_run(2000, 300)).answer, Trained::Answer::kImproving);
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
  EXPECT_EQ(t.phase, RateDecay::Phase::kNone);
}

TEST(Trained, TheLastStepDecidesWhereTheDecayIs) {
  RunSummary run = decaying_run(1000);
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kBefore);
  run.add(0, StepRecord{.step = 1500, .loss = 3, .nll = 3});
  EXPECT_EQ(trained_with(run).phase, RateDecay::Phase::kWithin);
}

TEST(Trained, LossesTooSteepBeforeTheDecayAreNotTooFew) {
  RunSummary run;
  run.add(0, StartRecord{.last_step = 2000});
  for (uint64_t step = 100; step <= 2000; step += 100) {
    evaluate(run, step, 3 * std::exp(-static_cast<double>(step) / 200), 3);
  }
  const Trained t = trained_with(run);
  EXPECT_EQ(t.phase, RateDecay::Phase::kAfter);
  EXPECT_EQ(t.losses.size(), 10u);
  EXPECT_EQ(t.evidence, Trained::Evidence::kTooSteep);
}

TEST(LossCurve, RecoversAKnownCurve) {
  Points points;
  for (double step = 1000; step <= 30'000; step += 1000) {
    points.emplace_back(step, 1.2 + 40 * std::pow(step, -0.5));
  }
  const auto curve = fit_loss_curve(points);
  ASSERT_TRUE(curve.has_value());
  EXPECT_NEAR(curve->at(60'000), 1.2 + 40 * std::pow(60'000, -0.5), 0.01);
  const double gain = 40 * (std::pow(30'000, -0.5) - std::pow(60'000, -0.5));
  EXPECT_LT(curve->gains[2].low, gain);
  EXPECT_GT(curve->gains[2].high, gain);
  EXPECT_FALSE(fit_loss_curve({{1, 2}, {2, 1}}).has_value());
}

}  // namespace
}  // namespace reigen
