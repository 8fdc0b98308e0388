// Losses of workers, repeated from the log of a run.
#include "train/workers/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "dist/members/job_fixture.h"
#include "observe/record/records.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

class ReplayTest : public testing::Test {
 protected:
  void record(const std::vector<MembershipChangeRecord>& changes) {
    std::filesystem::create_directories(dir.path("measurements"));
    std::string lines = log_line(StepRecord{.step = 1});
    for (const MembershipChangeRecord& change : changes) lines += log_line(change);
    write_text(dir.path("measurements/rank-0.jsonl"), lines);
  }

  TempDir dir;
};

TEST_F(ReplayTest, NamesThePresentWorkersThatLeaveAfterAStep) {
  record(
      {{.step = 7, .lost = {{.worker = 2}}}, {.step = 9, .lost = {{.worker = 0}, {.worker = 8}}}});
  with_elastic_job(3, [&](Job& job) {
    TrainOptions options;
    if (job.first()) options.workers.replay = dir.path();
    const Replay replay(job, options);
    EXPECT_FALSE(replay.due(6));
    EXPECT_TRUE(replay.due(7));
    EXPECT_EQ(replay.leaves(7), job.rank() == 2);
    EXPECT_TRUE(replay.due(9));
    EXPECT_EQ(replay.leaves(9), job.rank() == 0);
    job.barrier();
    job.leave();
  });
}

TEST_F(ReplayTest, RefusesARunToWhichWorkersWereAdded) {
  record({{.step = 7, .joined = {{.worker = 2}}}});
  EXPECT_THROW(recorded_losses(dir.path()), ConfigError);
}

}  // namespace
}  // namespace reigen
