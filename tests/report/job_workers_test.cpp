// The present workers of an elastic job, and what became of the others.
#include "report/job_workers.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

using What = WorkerChange::What;

StartRecord start_at(uint64_t step, double time, std::vector<MemberEntry> members) {
  return {.step = step, .time = time, .workers = members.size(), .members = std::move(members)};
}

TEST(JobWorkers, AreThoseOfTheStartUntilTheyChange) {
  RunSummary run;
  EXPECT_TRUE(workers_of_job(run).present.empty());
  run.add(0, start_at(40, 1000, {{0, "a"}, {1, "b"}}));
  const JobWorkers workers = workers_of_job(run);
  EXPECT_EQ(workers.present, (std::vector<PresentWorker>{{0, "a", 40}, {1, "b", 40}}));
  EXPECT_TRUE(workers.changes.empty());
}

TEST(JobWorkers, OfAJobThatIsNotElasticAreNone) {
  RunSummary run;
  run.add(0, StartRecord{.workers = 3});
  EXPECT_TRUE(workers_of_job(run).present.empty());
}

// Worker 1 is lost and joins again; the writer, 0, leaves; worker 3 is new.
TEST(JobWorkers, HaveTheirRankOfNowAndTheStepSinceWhichTheyAreMembers) {
  RunSummary run;
  run.add(0, start_at(0, 1000, {{0, "a"}, {1, "b"}, {2, "c"}}));
  MembershipChangeRecord lost{.step = 10, .time = 1001, .members = {{0, "a"}, {2, "c"}}};
  lost.lost = {{.worker = 1, .host = "b", .why = "no heartbeat for 1 s"}};
  MembershipChangeRecord joined{
      .step = 20, .time = 1002, .members = {{0, "a"}, {2, "c"}, {1, "b"}, {3, "d"}}};
  joined.joined = {{.worker = 1, .host = "b"}, {.worker = 3, .host = "d"}};
  MembershipChangeRecord left{.step = 30, .time = 1003, .members = {{2, "c"}, {1, "b"}, {3, "d"}}};
  left.left = {{.worker = 0, .host = "a", .why = "SIGTERM"}};
  for (const auto& change : {lost, joined, left}) run.add(0, change);
  const JobWorkers workers = workers_of_job(run);
  EXPECT_EQ(workers.present, (std::vector<PresentWorker>{{2, "c", 0}, {1, "b", 20}, {3, "d", 20}}));
  EXPECT_EQ(workers.changes,
            (std::vector<WorkerChange>{{10, What::kLost, 1, "b", "no heartbeat for 1 s"},
                                       {20, What::kJoined, 1, "b", ""},
                                       {20, What::kJoined, 3, "d", ""},
                                       {30, What::kLeft, 0, "a", "SIGTERM"}}));
}

TEST(JobWorkers, ChangesOfEarlierAttemptsDoNotCount) {
  RunSummary run;
  run.add(0, start_at(0, 1000, {{0, "a"}, {1, "b"}}));
  MembershipChangeRecord lost{.step = 10, .time = 1001, .members = {{1, "b"}}};
  lost.lost = {{.worker = 0, .host = "a"}};
  run.add(0, lost);
  run.add(0, start_at(10, 1002, {{0, "a"}, {1, "c"}}));
  const JobWorkers workers = workers_of_job(run);
  EXPECT_EQ(workers.present, (std::vector<PresentWorker>{{0, "a", 10}, {1, "c", 10}}));
  EXPECT_TRUE(workers.changes.empty());
}

}  // namespace
}  // namespace reigen
