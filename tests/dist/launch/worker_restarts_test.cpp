// Which lost workers of an elastic job are started again, and when.
#include "dist/launch/worker_restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const WorkerRestarts::Clock::time_point kStart{};
constexpr int kKilled = 128 + 9;

WorkerEnd killed(int rank, int code = kKilled) {
  return {.rank = rank, .code = code, .error = "lost", .joined = true, .number = rank};
}

// Three workers that train.
struct ThreeWorkers {
  explicit ThreeWorkers(int64_t allowed) : budget(allowed) {
    for (int rank = 0; rank < 3; ++rank) {
      workers.learn_address({rank, rank, "10.0.0." + std::to_string(rank) + ":5"});
    }
  }
  std::string end(const WorkerEnd& end, seconds at) {
    return workers.after(end, "vm1", kStart + at);
  }
  std::vector<int> due(milliseconds at) { return workers.due(kStart + at); }

  Restarts budget;
  WorkerRestarts workers{&budget};
};

TEST(WorkerRestarts, StartALostWorkerOnceAndNotBeforeItsPause) {
  ThreeWorkers job(2);
  EXPECT_THAT(job.end(killed(1), seconds(0)),
              testing::AllOf(HasSubstr("worker 1 (vm1): lost"), HasSubstr("in 1 s"),
                             HasSubstr("restart 1 of 2")));
  EXPECT_EQ(job.workers.addresses(), "10.0.0.0:5,10.0.0.2:5");  // those that it can ask
  EXPECT_THAT(job.due(milliseconds(999)), IsEmpty());
  EXPECT_THAT(job.due(milliseconds(1000)), ElementsAre(1));
  EXPECT_THAT(job.due(seconds(100)), IsEmpty());
  EXPECT_EQ(job.budget.left(), 1);
}

TEST(WorkerRestarts, PauseLongerAfterEachTryUntilTheWorkerHasRecovered) {
  ThreeWorkers job(100);
  seconds now{0};
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
    WorkerEnd end = killed(1);
    end.joiner = now.count() > 0;
    job.end(end, now);
    EXPECT_THAT(job.due(now + seconds(pause) - milliseconds(1)), IsEmpty());
    now += seconds(pause);
    EXPECT_THAT(job.due(now), ElementsAre(1));
  }
  job.end(killed(2), now);  // a different place has a pause of its own
  EXPECT_THAT(job.due(now + seconds(1)), ElementsAre(2));
  now += WorkerRestarts::kRecovered;
  job.end(killed(1), now);
  EXPECT_THAT(job.due(now + seconds(1)), ElementsAre(1));
}

TEST(WorkerRestarts, CountAgainstThoseOfTheJob) {
  ThreeWorkers job(1);
  job.end(killed(1), seconds(0));
  EXPECT_THAT(job.end(killed(2), seconds(0)), HasSubstr("no restart is left of --restarts 1"));
  EXPECT_THAT(job.due(seconds(10)), ElementsAre(1));
  EXPECT_FALSE(job.budget.after({.code = static_cast<int>(ExitCode::kComm)}));
}

TEST(WorkerRestarts, AreNotForWorkersThatLeftInOrder) {
  ThreeWorkers job(9);
  for (const int code : {0, 9, 130}) EXPECT_EQ(job.end(killed(1, code), seconds(0)), "") << code;
  EXPECT_THAT(job.due(seconds(1000)), IsEmpty());
  EXPECT_EQ(job.budget.used(), 0);
}

TEST(WorkerRestarts, AreNotForErrorsThatWouldRepeat) {
  ThreeWorkers job(9);
  for (const int code : {1, 2, 3, 4, 7, 8}) {
    EXPECT_THAT(job.end(killed(1, code), seconds(0)), HasSubstr("would repeat")) << code;
  }
  EXPECT_THAT(job.due(seconds(1000)), IsEmpty());
  EXPECT_EQ(job.budget.used(), 0);
}

// Before the first step the loss of one worker ends the job; after its end no job is left to join.
TEST(WorkerRestarts, NeedAJobToJoin) {
  Restarts budget(9);
  WorkerRestarts early(&budget);
  EXPECT_EQ(early.after(killed(1), "vm1", kStart), "");
  ThreeWorkers job(9);
  job.end(killed(0), seconds(0));
  job.end(killed(1), seconds(0));
  EXPECT_EQ(job.end(killed(2), seconds(0)), "");
  EXPECT_THAT(job.due(seconds(100)), IsEmpty());
  EXPECT_EQ(job.budget.used(), 2);
}

TEST(WorkerRestarts, EndWithTheJob) {
  ThreeWorkers job(9);
  job.end(killed(1), seconds(0));
  job.workers.end();
  EXPECT_THAT(job.due(seconds(100)), IsEmpty());
  EXPECT_EQ(job.end(killed(2), seconds(0)), "");
  EXPECT_EQ(job.budget.used(), 1);
}

TEST(WorkerRestarts, AreNoneWithoutTheOption) {
  ThreeWorkers job(0);
  EXPECT_EQ(job.end(killed(1), seconds(0)), "");
  WorkerRestarts none(nullptr);
  none.learn_address({0, 0, "10.0.0.0:5"});
  EXPECT_EQ(none.after(killed(1), "vm1", kStart), "");
}

}  // namespace
}  // namespace reigen
