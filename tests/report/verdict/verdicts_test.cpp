// Verdicts on synthetic runs that each have one cause.
#include "report/verdict/verdicts.h"

#include <gtest/gtest.h>

#include <algorithm>

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
                  shares.straggler + shares.interference + shares.shared_cores + shares.contention +
                  shares.evaluation + shares.checkpoint + shares.other,
              shares.total, 1e-6);
  return bottleneck(run).cause;
}

// The rank of the straggler; -1 where the cause is a different one.
int straggler_of(const RunSummary& run) {
  const Bottleneck b = bottleneck(run);
  return b.cause == Cause::kStraggler ? b.rank : -1;
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
    const Bottleneck b = bottleneck(run);
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
  EXPECT_EQ(bottleneck(run).advice, Advice::kInspectQuota);
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
  EXPECT_EQ(bottleneck(run).advice, Advice::kLargerProducts);
  EXPECT_EQ(efficiency(RunSummary(), {}).capacity, 0);
}

TEST(Bottleneck, EvaluationsAndCheckpointsCount) {
  RunSummary run = run_of({0.99});
  run.add(0, EvaluationRecord{.step = 40, .seconds = 60});
  EXPECT_EQ(bottleneck_of(run), Cause::kEvaluation);
  run.add(0, CheckpointRecord{.step = 40, .stall_seconds = 200});
  EXPECT_EQ(bottleneck_of(run), Cause::kCheckpoint);
  EXPECT_EQ(bottleneck(run).advice, Advice::kSaveLess);
}

TEST(Bottleneck, ThePredictionNamesTheCompression) {
  RunSummary run = run_of({0.5, 0.5});
  EXPECT_EQ(bottleneck(run).compression, CompressSetting{});
  run.add(0, PredictionRecord{.method = "int8"});
  EXPECT_EQ(bottleneck(run).compression.method, CompressMethod::kInt8);
  run.add(0, PredictionRecord{.method = "of a later version"});
  EXPECT_EQ(bottleneck(run).compression, CompressSetting{});
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
    const Bottleneck b = bottleneck(run);
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
  const Bottleneck b = bottleneck(run);
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

}  // namespace
}  // namespace reigen
