// What limited a run, whether it is trained, whether it overfits: runs made up to show one thing.
#include "report/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "report/curve_fit.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

std::string bottleneck_of(const RunSummary& run) {
  const TimeShares shares = time_shares(run);
  EXPECT_NEAR(shares.input + shares.compute + shares.compression + shares.network +
                  shares.straggler + shares.contended + shares.evaluation + shares.checkpoint +
                  shares.other,
              shares.total, 1e-6);
  return bottleneck(run, shares).verdict;
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

TEST(Bottleneck, IsWhatTheStepsWaitedFor) {
  EXPECT_EQ(bottleneck_of(run_of({0.99})), "compute");
  EXPECT_EQ(bottleneck_of(run_of({0.99, 0.98, 0.99})), "compute");
  EXPECT_EQ(bottleneck_of(run_of({0.3, 0.3})), "network");
  EXPECT_EQ(bottleneck_of(run_of({0.99}, 0.6)), "input");
}

TEST(Bottleneck, NamesTheRankTheOthersWaitFor) {
  EXPECT_EQ(bottleneck_of(run_of({0.4, 0.4, 0.98, 0.4})), "straggler: rank 2");
  EXPECT_EQ(bottleneck_of(run_of({0.98, 0.4})), "straggler: rank 0");
}

TEST(Bottleneck, WhatASlowFirstRankComputesIsComputing) {
  RunSummary run = run_of({0.98, 0.1});
  run.add(0, StartRecord{.target_token_flops = 1, .capacity = 1e3});
  const TimeShares shares = time_shares(run);
  EXPECT_NEAR(shares.computing() / shares.total, 0.98, 1e-6);
  EXPECT_LT(shares.compute / shares.total, 0.2);
  EXPECT_THAT(bottleneck(run, shares).because, HasSubstr("98% was computing"));
}

// Everybody computes for 0.2 of a second and waits for input, each as long as is given; then they
// wait for the last.
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

TEST(Bottleneck, ARankThatIsLateBecauseOfItsInputIsInput) {
  for (size_t late = 0; late < 3; ++late) {
    std::vector<double> inputs = {0.01, 0.01, 0.01};
    inputs[late] = 0.6;
    const RunSummary run = run_with_inputs(inputs);
    EXPECT_EQ(bottleneck_of(run), "input") << late;
    const Verdict v = bottleneck(run, time_shares(run));
    EXPECT_EQ(v.confidence, "high") << v.because;
    EXPECT_THAT(v.because, HasSubstr("71% waiting for input"));
    EXPECT_THAT(v.because, HasSubstr("rank " + std::to_string(late) + " waited 0.59 s a step"));
    EXPECT_THAT(v.because, Not(HasSubstr("slower rank")));
    EXPECT_THAT(v.advice, HasSubstr("the host of rank " + std::to_string(late)));
  }
  const RunSummary all = run_with_inputs({0.6, 0.6});
  EXPECT_EQ(bottleneck_of(all), "input");
  EXPECT_EQ(time_shares(all).input_rank, -1);
}

// A run of one worker goes on with three, whose steps are shorter: nobody is slow.
TEST(Bottleneck, AnotherNumberOfWorkersIsNoStraggler) {
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
  EXPECT_EQ(bottleneck_of(run), "compute");
  EXPECT_THAT(bottleneck(run, shares).because, HasSubstr("number of workers changed"));
  EXPECT_EQ(efficiency(run, shares).capacity, 0);
}

// A worker that is stopped now and then is late also within an exchange: both wait, though not for
// the link. It knows that it was not let run, and that tells.
TEST(Bottleneck, AWorkerThatIsNotLetRunIsTheCauseOfAllWaiting) {
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
  EXPECT_EQ(bottleneck_of(run_with(0, 0.75)), "straggler: rank 1");
  EXPECT_EQ(bottleneck_of(run_with(0.75, 0)), "straggler: rank 0");
  EXPECT_EQ(bottleneck_of(run_with(0, 0)), "network");
  EXPECT_EQ(bottleneck_of(run_with(0.5, 0.5)), "network");
}

// Now one is late and now the other, as on a busy machine: nobody waited for a link.
TEST(Bottleneck, WorkersThatAreLateInTurnAreNoNetwork) {
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
  EXPECT_EQ(bottleneck_of(run), "compute");
}

// The same waiting with idle cores and with busy ones, on a link that could carry far more.
TEST(Bottleneck, ExchangesThatWaitForAProcessorAreNoNetwork) {
  auto run_with = [](double busy, double bandwidth) {
    RunSummary run = run_of({0.6, 0.6});
    run.add(0, ForecastRecord{.bandwidth = bandwidth, .latency = 1e-4});
    SampleRecord sample;
    sample.step = 20;
    sample.seconds = 40;
    sample.cores = {busy, busy};
    run.add(0, sample);
    return run;
  };
  EXPECT_EQ(bottleneck_of(run_with(50, 1e9)), "network");
  EXPECT_EQ(bottleneck_of(run_with(100, 1e9)), "compute");
  EXPECT_EQ(bottleneck_of(run_with(100, 1e6)), "network");
}

TEST(Bottleneck, CompressionIsNoNetwork) {
  RunSummary run;
  for (uint64_t step = 1; step <= 40; ++step) {
    StepRecord record;
    record.step = step;
    record.seconds = 1;
    record.spans = {{"backward", 0.5}, {"compression", 0.4}, {"communication", 0.1}};
    run.add(0, record);
  }
  EXPECT_EQ(bottleneck_of(run), "compression");
}

TEST(Bottleneck, SaysHowFarComputingIsFromWhatTheDeviceCan) {
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
  EXPECT_THAT(bottleneck(run, shares).advice, HasSubstr("20% of what these processors do"));
  EXPECT_EQ(efficiency(RunSummary(), {}).capacity, 0);
}

TEST(Bottleneck, EvaluationsAndCheckpointsCount) {
  RunSummary run = run_of({0.99});
  run.add(0, EvaluationRecord{.step = 40, .seconds = 60});
  EXPECT_EQ(bottleneck_of(run), "evaluation");
  run.add(0, CheckpointRecord{.step = 40, .stall_seconds = 200});
  EXPECT_EQ(bottleneck_of(run), "checkpoint");
  const std::string advice = bottleneck(run, time_shares(run)).advice;
  EXPECT_THAT(advice, HasSubstr("--eval.every further apart"));
  EXPECT_THAT(advice, Not(HasSubstr("gathers")));
  run.add(0, ForecastRecord{.method = "int8"});
  EXPECT_THAT(bottleneck(run, time_shares(run)).advice, HasSubstr("--compress int8 each save"));
}

TEST(Bottleneck, AFifthBesideMuchComputingIsSaidAndNotNamed) {
  RunSummary run = run_of({1.0});
  run.add(0, EvaluationRecord{.step = 40, .seconds = 10});
  const Verdict v = bottleneck(run, time_shares(run));
  EXPECT_EQ(v.verdict, "compute");
  EXPECT_THAT(v.because, HasSubstr("could be avoided was evaluation, 20%"));
  EXPECT_THAT(v.because, Not(HasSubstr(" 0%")));
}

TEST(Bottleneck, FewStepsTellNothing) {
  EXPECT_EQ(bottleneck_of(run_of({0.99}, 0, 5)), "cannot tell");
  EXPECT_EQ(bottleneck_of(RunSummary()), "cannot tell");
}

TEST(Overfitting, IsSeenWithTheStepItBegan) {
  RunSummary run;
  const double valid[] = {5, 4, 3, 3.2, 3.5, 3.9, 4.2};
  for (uint64_t i = 0; i < 7; ++i) {
    evaluate(run, 100 * (i + 1), valid[i], 5 - 0.6 * static_cast<double>(i));
  }
  EXPECT_EQ(overfitting(run).verdict, "yes, since step 300");
  EXPECT_THAT(trained(run).verdict, StartsWith("yes"));
}

// One easy batch just before the last evaluation does not make training loss fall.
TEST(Overfitting, TrainingLossIsTheMeanSinceTheEvaluationBefore) {
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

TEST(Overfitting, ALossThatStillFallsIsNone) {
  RunSummary run;
  for (uint64_t i = 1; i < 7; ++i) {
    evaluate(run, 100 * i, 5 - 0.2 * static_cast<double>(i), 5 - 0.3 * static_cast<double>(i));
  }
  EXPECT_EQ(overfitting(run).verdict, "no");
  EXPECT_EQ(overfitting(RunSummary()).verdict, "cannot tell");
}

TEST(Trained, ARunStoppedEarlyIsNot) {
  RunSummary run;
  for (uint64_t step = 100; step <= 1000; step += 100) {
    evaluate(run, step, 1.5 + 60 / std::sqrt(static_cast<double>(step)), 2);
  }
  EXPECT_THAT(trained(run).verdict, StartsWith("no"));
  EXPECT_THAT(trained(run).because, HasSubstr("another 100% of the steps"));
}

// Stopped in the middle of learning: no curve that levels off above zero falls like that.
TEST(Trained, ARunStoppedWhileTheLossFallsSteeplyIsNot) {
  RunSummary run;
  const double valid[] = {5.5, 5, 4.6, 4.1, 3.3, 2.2, 1.3, 0.8, 0.5, 0.35};
  for (uint64_t i = 0; i < 10; ++i) evaluate(run, 100 * (i + 1), valid[i], valid[i]);
  EXPECT_FALSE(fit_loss_curve(validation_losses(run)).has_value());
  const Verdict v = trained(run);
  EXPECT_EQ(v.verdict, "no, still improving");
  EXPECT_EQ(v.confidence, "medium");
  EXPECT_THAT(v.because, HasSubstr("fell from 0.500 to 0.350, by 30%"));
  EXPECT_THAT(v.because, HasSubstr("too steeply"));
  EXPECT_THAT(v.because, Not(HasSubstr("too few")));
  // Once it levels off, that is not said any more.
  evaluate(run, 1100, 0.349, 0.349);
  EXPECT_THAT(trained(run).because, Not(HasSubstr("fell from")));
}

TEST(Trained, AFewEvaluationsTellThatALossStillFallsAndNoMore) {
  auto verdict_of = [](const std::vector<double>& losses) {
    RunSummary run;
    uint64_t step = 0;
    for (const double loss : losses) evaluate(run, step += 100, loss, loss);
    return trained(run);
  };
  const Verdict falling = verdict_of({5, 4.2, 3.9});
  EXPECT_EQ(falling.verdict, "no, still improving");
  EXPECT_EQ(falling.confidence, "low");
  EXPECT_THAT(falling.because, HasSubstr("3 evaluations are too few to fit a curve"));
  EXPECT_THAT(falling.rule, HasSubstr("more than 2% below the one before"));
  EXPECT_EQ(verdict_of({5, 4.95}).verdict, "cannot tell");
  EXPECT_EQ(verdict_of({5, 3, 4}).verdict, "cannot tell");
  EXPECT_EQ(verdict_of({5}).verdict, "cannot tell");
  EXPECT_EQ(verdict_of({}).verdict, "cannot tell");
}

TEST(Trained, ALossThatRisesWhileTrainingDoesNotFallIsGettingWorse) {
  RunSummary run;
  const double valid[] = {5, 4, 3.5, 3.6, 3.8, 4.1};
  for (uint64_t i = 0; i < 6; ++i) evaluate(run, 100 * (i + 1), valid[i], valid[i] - 0.1);
  EXPECT_EQ(trained(run).verdict, "no, it is getting worse since step 300");
  EXPECT_THAT(trained(run).advice, HasSubstr("warm-up"));
  EXPECT_EQ(overfitting(run).verdict, "no");
}

TEST(Trained, LossesThatScatterTellNothing) {
  RunSummary run;
  for (uint64_t i = 1; i <= 8; ++i) {
    evaluate(run, 100 * i, 3 + (i % 2 == 0 ? 0.2 : -0.2), 3);
  }
  run.add(0, EvaluationRecord{.step = 900, .nll = 2.81});
  EXPECT_EQ(trained(run).verdict, "cannot tell");
  EXPECT_THAT(trained(run).because, HasSubstr("scatter"));
}

TEST(Trained, ARunThatDivergedIsNot) {
  RunSummary run;
  evaluate(run, 100, 3, 3);
  StepRecord skipped;
  skipped.step = 101;
  skipped.skipped = true;
  run.add(0, skipped);
  run.add(0, EndRecord{.step = 101, .reason = "diverged"});
  EXPECT_EQ(trained(run).verdict, "no: it diverged at step 101");
  EXPECT_THAT(trained(run).because, HasSubstr("1 steps were skipped"));
}

TEST(Trained, WhatIsLostIsMoreLoss) {
  EXPECT_EQ(text_of({.more = 0.5, .gain = -0.071, .low = -0.1, .high = -0.04}),
            "0.071 more loss (80% interval 0.040 to 0.100 more)");
}

TEST(Trained, ACurveThatIsFlatIs) {
  RunSummary run;
  for (uint64_t step = 1000; step <= 20'000; step += 1000) {
    evaluate(run, step, 1.5 + std::pow(static_cast<double>(step) / 1000, -2), 1.4);
  }
  EXPECT_EQ(trained(run).verdict, "yes");
}

TEST(LossCurve, FindsTheCurveItWasMadeOf) {
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
