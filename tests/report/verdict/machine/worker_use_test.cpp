// The processes that had the cores of the workers, on synthetic records.
#include "report/verdict/machine/worker_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/sample/process_counters.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Worker {
  std::string cores;
  double own = 0;               // cores used
  double busy = 0;              // of its cores, by all processes
  std::optional<double> delay;  // seconds per second
  std::string machine = "m";
};

// Ten seconds of each worker.
RunSummary run_of_workers(const std::vector<Worker>& workers, uint64_t threads = 1) {
  RunSummary run;
  run.add(0, StartRecord{.threads = threads, .workers = workers.size()});
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const Worker& w = workers[rank];
    for (uint64_t step = 1; step <= 10; ++step) {
      run.add(static_cast<int>(rank), ProcessRecord{.step = step,
                                                    .seconds = 1,
                                                    .machine = w.machine,
                                                    .cores = w.cores,
                                                    .core_count = cores_in(w.cores).size(),
                                                    .cpu = w.own,
                                                    .run_delay = w.delay,
                                                    .cores_busy = w.busy});
    }
  }
  return run;
}

TEST(WorkerUse, CoresThatOtherProcessesHadAreLost) {
  const WorkerUse use =
      worker_use(run_of_workers({{.cores = "0-1", .own = 1, .busy = 2, .delay = 1}}, 2)).at(0);
  EXPECT_TRUE(use.known);
  EXPECT_DOUBLE_EQ(use.others, 1);
  EXPECT_DOUBLE_EQ(use.denied, 0.5);
  EXPECT_DOUBLE_EQ(use.lost_to_others, 0.5);
  EXPECT_DOUBLE_EQ(use.lost_to_workers, 0);
  EXPECT_THAT(use.sharing, IsEmpty());
}

TEST(WorkerUse, OtherProcessesOnIdleCoresCostNothing) {
  const WorkerUse use =
      worker_use(run_of_workers({{.cores = "0-3", .own = 1, .busy = 3, .delay = 0.01}})).at(0);
  EXPECT_DOUBLE_EQ(use.others, 2);
  EXPECT_LT(use.lost_to_others, 0.02);
}

TEST(WorkerUse, WorkersOfOneCoreShareIt) {
  const auto uses =
      worker_use(run_of_workers({{.cores = "0", .own = 0.5, .busy = 1, .delay = 0.5},
                                 {.cores = "0", .own = 0.5, .busy = 1, .delay = 0.5}}));
  for (int rank : {0, 1}) {
    EXPECT_THAT(uses.at(rank).sharing, ElementsAre(0, 1));
    EXPECT_DOUBLE_EQ(uses.at(rank).others, 0);
    EXPECT_DOUBLE_EQ(uses.at(rank).lost_to_workers, 0.5);
    EXPECT_DOUBLE_EQ(uses.at(rank).lost_to_others, 0);
  }
}

TEST(WorkerUse, WorkersWithACoreEachDoNotTakeItFromEachOther) {
  const auto uses =
      worker_use(run_of_workers({{.cores = "0-1", .own = 1, .busy = 2, .delay = 0.05},
                                 {.cores = "0-1", .own = 1, .busy = 2, .delay = 0.05}}));
  EXPECT_DOUBLE_EQ(uses.at(0).lost_to_workers, 0);
  EXPECT_DOUBLE_EQ(uses.at(0).lost_to_others, 0);
}

TEST(WorkerUse, OtherMachinesHaveOtherCores) {
  const auto uses = worker_use(
      run_of_workers({{.cores = "0", .own = 1, .busy = 1, .delay = 0.01},
                      {.cores = "0", .own = 1, .busy = 1, .delay = 0.01, .machine = "other"}}));
  EXPECT_THAT(uses.at(0).sharing, IsEmpty());
  EXPECT_DOUBLE_EQ(uses.at(0).siblings, 0);
}

TEST(WorkerUse, MoreThreadsThanCoresWaitForEachOther) {
  const WorkerUse use =
      worker_use(run_of_workers({{.cores = "0", .own = 1, .busy = 1, .delay = 1}}, 2)).at(0);
  EXPECT_DOUBLE_EQ(use.lost_to_workers, 0.5);
  EXPECT_DOUBLE_EQ(use.lost_to_others, 0);
}

TEST(WorkerUse, AHiddenRunDelayIsUnknownAndFullCoresStillShowOthers) {
  const WorkerUse full =
      worker_use(run_of_workers({{.cores = "0-1", .own = 1, .busy = 2, .delay = {}}}, 2)).at(0);
  EXPECT_FALSE(full.denied_known);
  EXPECT_DOUBLE_EQ(full.lost_to_others, 0.5);
  const WorkerUse idle =
      worker_use(run_of_workers({{.cores = "0-3", .own = 1, .busy = 2, .delay = {}}}, 2)).at(0);
  EXPECT_DOUBLE_EQ(idle.lost_to_others, 0);
}

TEST(WorkerUse, AQuotaOfSeveralWorkersCountsForEachByItsOwnWaiting) {
  RunSummary run = run_of_workers({{.cores = "0-3", .own = 0.5, .busy = 1, .delay = 0.5},
                                   {.cores = "0-3", .own = 0.5, .busy = 1, .delay = 0.5}});
  for (int rank = 0; rank < 2; ++rank) {
    run.add(rank, ProcessRecord{.step = 11,
                                .seconds = 10,
                                .machine = "m",
                                .cores = "0-3",
                                .core_count = 4,
                                .core_limit = 1,
                                .cpu = 5,
                                .run_delay = 5,
                                .throttled = 20,
                                .cores_busy = 10});
  }
  const WorkerUse use = worker_use(run).at(1);
  EXPECT_DOUBLE_EQ(use.quota, 1);
  EXPECT_DOUBLE_EQ(use.cores, 1);
  EXPECT_DOUBLE_EQ(use.lost_to_quota, 0.5);
  EXPECT_DOUBLE_EQ(use.lost_to_others, 0);
}

TEST(WorkerUse, WithoutRecordsIsUnknown) {
  RunSummary run;
  run.add(0, StepRecord{.step = 1, .seconds = 1});
  EXPECT_FALSE(worker_use(run).at(0).known);
}

}  // namespace
}  // namespace reigen
