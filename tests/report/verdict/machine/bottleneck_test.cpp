// Verdicts on synthetic runs that each have one cause.
#include "report/verdict/machine/bottleneck.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/verdict/machine/wording.h"

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
  EXPECT_NEAR(shares.input + shares.compute + shares.lost_compute() + shares.compression +
                  shares.network + shares.straggler + shares.late_in_turn + shares.contention +
                  shares.evaluation + shares.checkpoint + shares.logging + shares.other,
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
    EXPECT_EQ(b.advice, Advice::kFasterInput);
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
  EXPECT_NEAR(time_shares(run).late_in_turn / time_shares(run).total, 0.2, 0.01);
}

// Each step waits for one of them, and none is slower than the others in the end.
TEST(Bottleneck, RanksThatAreLateInTurnForMostOfTheTimeAreNamed) {
  auto run_with = [](double others) {
    RunSummary run;
    for (uint64_t step = 1; step <= 40; ++step) {
      const double mine = step % 2 == 0 ? 0.8 : 0.0;
      run.add(0, StepRecord{.step = step,
                            .seconds = 1,
                            .spans = {{"backward", 1 - mine}, {"communication", mine}},
                            .communication = CommunicationTimes{.min_wait = 0}});
      run.add(1, SpansRecord{.step = step,
                             .steps = 1,
                             .seconds = 1,
                             .spans = {{"backward", 0.2 + mine}, {"communication", 0.8 - mine}}});
      run.add(1, ProcessRecord{.step = step,
                               .seconds = 1,
                               .machine = "m",
                               .cores = "1",
                               .core_count = 1,
                               .cpu = 1 - others,
                               .run_delay = others,
                               .cores_busy = 1});
    }
    return run;
  };
  EXPECT_EQ(bottleneck_of(run_with(0)), Cause::kLateInTurn);
  EXPECT_EQ(bottleneck(run_with(0)).advice, Advice::kEvenRanks);
  EXPECT_EQ(bottleneck_of(run_with(0.4)), Cause::kInterference);
}

// 40 steps of a second that mostly compute, and what the process records say about them.
RunSummary run_with_use(const ProcessRecord& use, const Spans& spans = {{"backward", 1}},
                        const SampleRecord& sample = {}) {
  RunSummary run;
  run.add(0, StartRecord{.threads = 1, .device_kind = sample.gpus.empty() ? "cpu" : "gpu"});
  for (uint64_t step = 1; step <= 40; ++step) {
    run.add(0, StepRecord{.step = step, .target_tokens = 100, .seconds = 1, .spans = spans});
    ProcessRecord each = use;
    each.step = step;
    each.seconds = 1;
    run.add(0, each);
    SampleRecord host = sample;
    host.step = step;
    host.seconds = 1;
    run.add(0, host);
  }
  return run;
}

ProcessRecord one_core() {
  return {.machine = "m",
          .cores = "0",
          .core_count = 1,
          .threads = 1,
          .cpu = 1,
          .run_delay = 0,
          .cores_busy = 1};
}

TEST(Bottleneck, ASingleWorkerUnderACpuQuotaIsToldSo) {
  ProcessRecord use = one_core();
  use.core_limit = 0.25;
  use.cpu = 0.25;
  use.cores_busy = 0.25;
  use.run_delay = 0.75;
  use.throttled = 0.74;
  const Bottleneck b = bottleneck(run_with_use(use));
  EXPECT_EQ(bottleneck_of(run_with_use(use)), Cause::kQuota);
  EXPECT_EQ(b.confidence, Confidence::kHigh);
  EXPECT_EQ(b.advice, Advice::kLiftQuota);
  EXPECT_NEAR(b.largest.share, 0.75, 0.01);
  EXPECT_DOUBLE_EQ(b.uses.at(0).cores, 0.25);
  // Work of others on a core beside it does not take what the quota withholds.
  use.cores = "0-1";
  use.core_count = 2;
  use.cores_busy = 1.25;
  EXPECT_EQ(bottleneck_of(run_with_use(use)), Cause::kQuota);
}

TEST(Bottleneck, StealOfASingleWorkerIsNamed) {
  ProcessRecord use = one_core();
  use.cpu = use.cores_busy = 0.6;
  use.stolen = 0.4;
  EXPECT_EQ(bottleneck_of(run_with_use(use)), Cause::kSteal);
  EXPECT_NEAR(bottleneck(run_with_use(use)).largest.share, 0.4, 1e-6);
  use.stolen = 0.02;
  use.cpu = use.cores_busy = 0.98;
  EXPECT_EQ(bottleneck_of(run_with_use(use)), Cause::kCompute);
}

TEST(Bottleneck, WaitingForMemoryIsNamedWhereTheWorkerReadsItsPagesBack) {
  ProcessRecord use = one_core();
  use.major_faults = 400;
  use.cpu = 0.3;
  EXPECT_EQ(bottleneck_of(run_with_use(use, {{"backward", 1}}, {.memory_pressure = 60})),
            Cause::kMemory);
  // Other processes of the host wait.
  use.major_faults = 0;
  EXPECT_EQ(bottleneck_of(run_with_use(use, {{"backward", 1}}, {.memory_pressure = 60})),
            Cause::kCompute);
  // A kernel that hides the pressure: it may be memory.
  use.major_faults = 400;
  const Bottleneck hidden = bottleneck(run_with_use(use));
  EXPECT_EQ(hidden.cause, Cause::kCompute);
  EXPECT_EQ(hidden.confidence, Confidence::kLow);
}

TEST(Bottleneck, IdleCoresBesideFewThreadsGetAdvice) {
  ProcessRecord use = one_core();
  use.cores = "0-7";
  use.core_count = 8;
  Bottleneck b = bottleneck(run_with_use(use));
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_EQ(b.advice, Advice::kMoreThreads);
  EXPECT_DOUBLE_EQ(idle_threads(b.uses.at(0)), 7);
  use.cores_busy = 7.5;  // others have them
  EXPECT_NE(bottleneck(run_with_use(use)).advice, Advice::kMoreThreads);
  use.cores_busy = 1;
  use.core_limit = 1;  // a quota grants no more
  EXPECT_NE(bottleneck(run_with_use(use)).advice, Advice::kMoreThreads);
  use.core_limit = 0;
  use.threads = 5;
  EXPECT_NE(bottleneck(run_with_use(use)).advice, Advice::kMoreThreads);
  // Two cores, of which the kernel uses a little.
  use.threads = 1;
  use.cores = "0-1";
  use.core_count = 2;
  use.cores_busy = 1.15;
  EXPECT_EQ(bottleneck(run_with_use(use)).advice, Advice::kMoreThreads);
}

TEST(Bottleneck, InputIsADiskOrAProcessorByWhatItsThreadDid) {
  auto advice_with = [](std::optional<double> running, double waiting) {
    ProcessRecord use = one_core();
    use.input_cpu = running;
    use.input_delay = waiting;
    const RunSummary run = run_with_use(use, {{"input", 0.6}, {"backward", 0.4}});
    EXPECT_EQ(bottleneck_of(run), Cause::kInput);
    return bottleneck(run).advice;
  };
  EXPECT_EQ(advice_with(0.05, 0.01), Advice::kFasterDisk);
  EXPECT_EQ(advice_with(0.01, 0.98), Advice::kReaderWaits);
  EXPECT_EQ(advice_with(0.95, 0.01), Advice::kReaderIsBusy);
  EXPECT_EQ(advice_with({}, 0), Advice::kFasterInput);
}

TEST(Bottleneck, LoggingAndTimeThatNothingExplainsAreNamed) {
  EXPECT_EQ(bottleneck_of(run_with_use(one_core(), {{"backward", 0.6}, {"observe", 0.4}})),
            Cause::kLogging);
  EXPECT_EQ(bottleneck_of(run_with_use(one_core(), {{"backward", 0.6}})), Cause::kOther);
}

// As measured on an H200: the driver shows the process of others, but not how long it computed; the
// last evaluation takes a third of the stretch after its arrival.
TEST(Bottleneck, ProcessesThatArriveOnAGpuAreNamedWhereStepsBecomeLonger) {
  RunSummary run;
  run.add(0, StartRecord{.time = 1000, .threads = 1, .device_kind = "gpu"});
  double now = 1000;
  for (uint64_t step = 1; step <= 200; ++step) {
    const bool late = step > 140;
    const double seconds = late ? 0.3 : 0.1;
    now += seconds;
    run.add(0, StepRecord{.step = step,
                          .time = now,
                          .target_tokens = 100,
                          .seconds = seconds,
                          .spans = {{"input", late ? 0.1 : 0}, {"backward", late ? 0.2 : 0.1}}});
    GpuSample gpu{.utilisation = 100};
    gpu.other_processes = late ? 1 : 0;
    run.add(0, SampleRecord{.step = step, .time = now, .seconds = seconds, .gpus = {gpu}});
  }
  run.add(0, EvaluationRecord{.step = 200, .seconds = 9, .nll = 3});
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kGpuShared);
  EXPECT_EQ(b.confidence, Confidence::kMedium);
  EXPECT_TRUE(b.of_last_stretch);
}

// 40 steps of a second in which the only worker ran for half of the time.
RunSummary run_stopped(const ProcessRecord& use) {
  RunSummary run;
  run.add(0, StartRecord{.threads = 1, .workers = 1, .device_kind = "cpu"});
  for (uint64_t step = 1; step <= 40; ++step) {
    run.add(0, StepRecord{.step = step,
                          .target_tokens = 100,
                          .seconds = 1,
                          .descheduled_seconds = 0.5,
                          .spans = {{"backward", 1}}});
    ProcessRecord each = use;
    each.step = step;
    each.seconds = 1;
    run.add(0, each);
  }
  return run;
}

TEST(Bottleneck, ASingleWorkerThatIsStoppedAsAWholeIsToldSo) {
  ProcessRecord use = one_core();
  use.cpu = 0.5;
  use.cores_busy = 0.5;
  const RunSummary run = run_stopped(use);
  EXPECT_EQ(bottleneck_of(run), Cause::kStopped);
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.confidence, Confidence::kHigh);
  EXPECT_EQ(b.advice, Advice::kKeepRunning);
  EXPECT_NEAR(b.largest.share, 0.5, 0.02);
  // Half of the time that was left was lost to others.
  use.cores_busy = 1;
  use.run_delay = 0.5;
  const TimeShares both = time_shares(run_stopped(use));
  EXPECT_NEAR(both.stopped / both.total, 0.5, 0.02);
  EXPECT_NEAR(both.interference / both.total, 0.25, 0.02);
  // A quota that stops it explains the same time.
  use = one_core();
  use.core_limit = 0.5;
  use.cpu = 0.5;
  use.cores_busy = 0.5;
  use.run_delay = 0.5;
  use.throttled = 0.5;
  EXPECT_EQ(bottleneck_of(run_stopped(use)), Cause::kQuota);
}

// A fifth of the time waits for a rank whose core other processes have: that is mentioned with
// them.
TEST(Bottleneck, AMentionedWaitForASlowRankHasItsReason) {
  RunSummary run = run_of({0.78, 0.99});
  for (int rank = 0; rank < 2; ++rank) {
    for (uint64_t step = 1; step <= 40; ++step) {
      ProcessRecord use = one_core();
      use.machine = "m";
      use.cores = rank == 0 ? "0" : "1";
      use.step = step;
      use.seconds = 1;
      use.cpu = 0.78;
      use.cores_busy = rank == 0 ? 0.78 : 1;
      use.run_delay = rank == 0 ? 0 : 0.21;
      run.add(rank, use);
    }
  }
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_EQ(b.largest.cause, Cause::kInterference);
  EXPECT_NEAR(b.largest.share, 0.21, 0.01);
  const std::string because = text_of(b).because;
  EXPECT_NE(
      because.find("rank 1 worked 1.27 times as long as the faster ranks: other processes had"),
      std::string::npos)
      << because;
}

TEST(Bottleneck, AnExchangeThatKeepsACoreBusyIsNotTheLink) {
  auto run_with = [](double cpu) {
    RunSummary run = run_of({0.3, 0.3});
    for (int rank = 0; rank < 2; ++rank) {
      for (uint64_t step = 1; step <= 40; ++step) {
        ProcessRecord use = one_core();
        use.machine = rank == 0 ? "a" : "b";
        use.step = step;
        use.seconds = 1;
        use.cpu = use.cores_busy = cpu;
        run.add(rank, use);
      }
    }
    return run;
  };
  EXPECT_EQ(bottleneck(run_with(0.35)).cause, Cause::kNetwork);
  EXPECT_EQ(bottleneck(run_with(0.6)).cause, Cause::kNetwork);
  const Bottleneck b = bottleneck(run_with(0.98));
  EXPECT_EQ(b.cause, Cause::kExchangeWork);
  EXPECT_EQ(b.confidence, Confidence::kMedium);
  EXPECT_EQ(b.advice, Advice::kFewerBytes);
  EXPECT_NEAR(b.exchange_work, 0.97, 0.02);
  EXPECT_NEAR(b.largest.share, 0.7, 0.01);
}

// 100 steps of a second that compute, with as many seconds between them, and some after the last.
RunSummary run_with_pauses(double between, double ending) {
  RunSummary run;
  run.add(0, StartRecord{.time = 1000});
  for (uint64_t step = 1; step <= 100; ++step) {
    const double time = 1000 + static_cast<double>(step) * (1 + between / 100);
    run.add(0, StepRecord{.step = step, .time = time, .seconds = 1, .spans = {{"backward", 1}}});
  }
  const double seconds = 100 + between + ending;
  run.add(0, EndRecord{.step = 100, .time = 1000 + seconds, .seconds = seconds});
  return run;
}

TEST(Bottleneck, TimeBetweenStepsIsACauseOfItsOwn) {
  Bottleneck b = bottleneck(run_with_pauses(60, 2));
  EXPECT_EQ(b.cause, Cause::kBetweenSteps);
  EXPECT_EQ(b.confidence, Confidence::kHigh);
  EXPECT_EQ(b.advice, Advice::kReadLog);
  EXPECT_NEAR(b.largest.share, 57.0 / 156, 0.01);
  const TimeShares& s = b.whole.shares;
  EXPECT_NEAR(s.compute + s.network + s.between + s.other, s.total, 1e-6);
  // Less than a third beside steps that compute is mentioned.
  b = bottleneck(run_with_pauses(20, 2));
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_EQ(b.largest.cause, Cause::kBetweenSteps);
  // The end of a run is no time between steps.
  EXPECT_NEAR(bottleneck(run_with_pauses(0, 60)).whole.shares.between, 0, 1e-6);
}

TEST(Bottleneck, AGpuWhoseHostIsBusyWithOtherWorkIsNotSurelyTheLimit) {
  ProcessRecord use = one_core();
  use.cpu = 0.5;
  use.cores_busy = 1;
  use.run_delay = 0.4;
  const SampleRecord host{.gpus = {GpuSample{.utilisation = 40}}};
  const Bottleneck b = bottleneck(run_with_use(use, {{"backward", 1}}, host));
  EXPECT_EQ(b.cause, Cause::kCompute);
  EXPECT_EQ(b.confidence, Confidence::kLow);
  const Bottleneck alone = bottleneck(run_with_use(one_core(), {{"backward", 1}}, host));
  EXPECT_EQ(alone.confidence, Confidence::kHigh);
}

TEST(Bottleneck, AGpuThatOthersUseOrThatLowersItsClockIsNamed) {
  auto run_on = [](GpuSample gpu) {
    gpu.utilisation = 95;
    return run_with_use(one_core(), {{"backward", 1}}, {.gpus = {gpu}});
  };
  const RunSummary shared =
      run_on({.megahertz = 1900, .max_megahertz = 1980, .other_processes = 1, .other_use = 45});
  EXPECT_EQ(bottleneck_of(shared), Cause::kGpuShared);
  EXPECT_EQ(bottleneck(shared).advice, Advice::kFreeGpu);
  EXPECT_EQ(bottleneck(shared).confidence, Confidence::kMedium);
  const RunSummary slowed = run_on(
      {.megahertz = 900, .max_megahertz = 1980, .slowed_by = "power-cap", .other_processes = 0});
  EXPECT_EQ(bottleneck_of(slowed), Cause::kGpuSlowed);
  EXPECT_EQ(bottleneck(slowed).advice, Advice::kInspectGpu);
  EXPECT_EQ(bottleneck(slowed).gpu.slowed_by, "power-cap");
  // At its power limit as usual, beside a process that computes nothing.
  const RunSummary healthy = run_on({.megahertz = 1755,
                                     .max_megahertz = 1980,
                                     .slowed_by = "power-cap",
                                     .other_processes = 1,
                                     .other_use = 0});
  EXPECT_EQ(bottleneck_of(healthy), Cause::kCompute);
  EXPECT_EQ(bottleneck(healthy).confidence, Confidence::kHigh);
  // An old driver tells that there is somebody, and not how long they compute.
  const RunSummary hidden = run_on({.megahertz = 1900, .other_processes = 1});
  EXPECT_EQ(bottleneck(hidden).cause, Cause::kCompute);
  EXPECT_EQ(bottleneck(hidden).confidence, Confidence::kLow);
}

TEST(Bottleneck, ARankWithFewerThreadsIsSlowForThatReason) {
  RunSummary run = run_of({0.4, 0.98});
  for (int rank = 0; rank < 2; ++rank) {
    for (uint64_t step = 1; step <= 10; ++step) {
      ProcessRecord use = one_core();
      use.step = step;
      use.seconds = 1;
      use.cores = "0-3";
      use.core_count = 4;
      use.threads = rank == 0 ? 2 : 1;
      run.add(rank, use);
    }
  }
  const Bottleneck b = bottleneck(run);
  EXPECT_EQ(b.cause, Cause::kStraggler);
  EXPECT_EQ(b.rank, 1);
  EXPECT_EQ(b.shares.late.at(0).reason, SlowReason::kFewerThreads);
  EXPECT_EQ(b.advice, Advice::kMoreThreadsOfRank);
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
  EXPECT_EQ(bottleneck_of(run_with(100, 1e9)), Cause::kContention);
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
    record.seconds = 0.5;
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

TEST(Bottleneck, SegmentsThatAreSentAgainCountBetweenHostsOnly) {
  auto resent_over = [](const char* interface) {
    RunSummary run = run_of({0.3, 0.3});
    SampleRecord sample{.step = 20, .seconds = 1, .tcp_sent = 10'000, .tcp_resent = 200};
    sample.interfaces = {{.name = interface, .used = true}};
    run.add(0, sample);
    return bottleneck(run).resent;
  };
  EXPECT_DOUBLE_EQ(resent_over("eth0"), 0.02);
  EXPECT_DOUBLE_EQ(resent_over("lo"), 0);
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
