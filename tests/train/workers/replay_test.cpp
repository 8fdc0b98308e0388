// Changes of the workers, repeated from the log of a run.
#include "train/workers/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "dist/members/job_fixture.h"
#include "observe/record/records.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

class ReplayTest : public testing::Test {
 protected:
  void record(const std::vector<MembershipChangeRecord>& changes, const std::string& more = "") {
    std::filesystem::create_directories(dir.path("measurements"));
    std::string lines = log_line(StartRecord{}) + log_line(StepRecord{.step = 1});
    for (const MembershipChangeRecord& change : changes) lines += log_line(change);
    write_text(dir.path("measurements/rank-0.jsonl"), lines + more);
  }

  // The body gets what rank 0 has read.
  void replayed(const std::function<void(Job&, Replay&)>& body) {
    with_elastic_job(3, [&](Job& job) {
      TrainOptions options;
      if (job.first()) options.workers.replay = dir.path();
      Replay replay(job, options);
      body(job, replay);
      job.barrier();
      job.leave();
    });
  }

  TempDir dir;
};

TEST_F(ReplayTest, NamesThePresentWorkersThatLeaveAfterAStep) {
  record(
      {{.step = 7, .lost = {{.worker = 2}}}, {.step = 9, .lost = {{.worker = 0}, {.worker = 8}}}});
  replayed([](Job& job, Replay& replay) {
    EXPECT_TRUE(replay.active());
    EXPECT_FALSE(replay.due(6));
    EXPECT_TRUE(replay.due(7));
    EXPECT_EQ(replay.leaves(7), job.rank() == 2);
    EXPECT_TRUE(replay.due(9));
    EXPECT_EQ(replay.leaves(9), job.rank() == 0);
    EXPECT_EQ(replay.joining(9), 0u);
  });
}

TEST_F(ReplayTest, KnowsAWorkerThatJoinedByItsNewNumber) {
  record({{.step = 7, .left = {{.worker = 8}}},
          {.step = 9, .joined = {{.worker = 8}}},
          {.step = 12, .lost = {{.worker = 8}}}});
  replayed([](Job& job, Replay& replay) {
    EXPECT_FALSE(replay.due(7));  // there is no such worker
    EXPECT_TRUE(replay.due(9));
    EXPECT_EQ(replay.joining(9), 1u);
    replay.added(9, std::vector<uint64_t>{1});
    EXPECT_FALSE(replay.due(9));
    EXPECT_EQ(replay.leaves(12), job.rank() == 1);
  });
}

TEST_F(ReplayTest, NeglectsAWorkerThatJoinedAndTookPartInNoStep) {
  record({{.step = 7, .lost = {{.worker = 3}, {.worker = 1}}, .joined = {{.worker = 3}}},
          {.step = 8, .settled = "repeated"}});
  const auto changes = recorded_changes(dir.path());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes.at(7).joined.empty());
  EXPECT_EQ(changes.at(7).gone, std::set<uint64_t>{1});
}

TEST_F(ReplayTest, RefusesARunThatWasResumedAndOneWhoseSharesCannotBeRepeated) {
  record({}, log_line(StartRecord{}));
  EXPECT_THROW(recorded_changes(dir.path()), ConfigError);
  record({{.step = 7, .joined = {{.worker = 2}}}}, log_line(SharesRecord{.step = 7}));
  EXPECT_THROW(recorded_changes(dir.path()), ConfigError);
  record({{.step = 7, .lost = {{.worker = 2}}}}, log_line(SharesRecord{.step = 7}));
  EXPECT_EQ(recorded_changes(dir.path()).size(), 1u);
}

}  // namespace
}  // namespace reigen
