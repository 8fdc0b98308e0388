// Shares of a batch by measured speed, and recorded ones.
#include "train/workers/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "dist/members/job_fixture.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BetterShares, FollowSpeedsWhereAStepGetsClearlyShorter) {
  EXPECT_THAT(better_shares(std::vector{2.0, 1.0}, {}), ElementsAre(0.667, 0.333));
  // 5% faster than the mean: with equal shares the step takes 2.6% longer than it would.
  EXPECT_THAT(better_shares(std::vector{1.05, 1.0}, {}), IsEmpty());
  EXPECT_THAT(better_shares(std::vector{1.0, 1.0}, {0.667, 0.333}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(better_shares(std::vector{2.02, 1.0}, {0.667, 0.333}), ElementsAre(0.667, 0.333));
  EXPECT_THAT(better_shares(std::vector{1e6, 1.0, 1e6}, {}), ElementsAre(0.5, 0.001, 0.5));
}

TEST(BetterShares, StayWhereASpeedIsNotKnown) {
  EXPECT_THAT(better_shares(std::vector{2.0, 0.0}, {0.5, 0.5}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(better_shares(std::vector<double>{}, {}), IsEmpty());
}

// A step in which this worker computed `share` of the batch in `seconds`.
void measure(WorkerShares& shares, double share, double seconds) {
  ReadyBatch ready;
  ready.share = share;
  StepRecord record;
  record.spans = {{"input", 5},
                  {"forward", seconds / 2},
                  {"loss", seconds / 4},
                  {"backward", seconds / 4},
                  {"communication", 7}};
  shares.measured(ready, record);
}

TEST(WorkerShares, ChangeOnAllRanksAfterTheSameStep) {
  with_job(2, [](Job& job) {
    TrainOptions options;
    options.workers.shares = Shares::kMeasured;
    Choices choices;
    WorkerShares shares(job, options, choices);
    EXPECT_FALSE(shares.due(0));
    EXPECT_FALSE(shares.due(49));
    EXPECT_TRUE(shares.due(50));
    EXPECT_FALSE(shares.adapt(50));  // nothing is measured yet
    for (int step = 0; step < 20; ++step) measure(shares, 0.5, job.first() ? 0.1 : 0.3);
    EXPECT_TRUE(shares.adapt(100));
    EXPECT_THAT(choices.shares, ElementsAre(0.75, 0.25));
    EXPECT_EQ(shares.record().step, 100u);
    EXPECT_EQ(shares.record().speeds.size(), 2u);
    for (int step = 0; step < 20; ++step)
      measure(shares, choices.shares[static_cast<size_t>(job.rank())], 0.15);
    EXPECT_FALSE(shares.adapt(150));  // they fit
  });
}

TEST(WorkerShares, AreEqualWithoutTheOption) {
  with_job(2, [](Job& job) {
    Choices choices;
    choices.shares = {0.75, 0.25};  // of an attempt with it
    WorkerShares shares(job, {}, choices);
    EXPECT_THAT(choices.shares, IsEmpty());
    EXPECT_FALSE(shares.due(50));
  });
}

TEST(WorkerShares, OfADifferentNumberOfWorkersAreDropped) {
  with_job(2, [](Job& job) {
    TrainOptions options;
    options.workers.shares = Shares::kMeasured;
    Choices three;
    three.shares = {0.5, 0.25, 0.25};
    const WorkerShares dropped(job, options, three);
    EXPECT_THAT(three.shares, IsEmpty());
    Choices two;
    two.shares = {0.75, 0.25};
    const WorkerShares resumed(job, options, two);
    EXPECT_THAT(two.shares, ElementsAre(0.75, 0.25));
  });
}

TEST(WorkerShares, OfARunAreRepeatedAfterTheSameSteps) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path("measurements"));
  write_text(dir.path("measurements/rank-0.jsonl"),
             log_line(StepRecord{.step = 1}) +
                 log_line(SharesRecord{.step = 50, .shares = {0.7, 0.3}}) +
                 log_line(SharesRecord{.step = 150, .shares = {0.6, 0.4}}));
  with_job(2, [&](Job& job) {
    TrainOptions options;
    if (job.first()) options.workers.shares_of = dir.path();
    Choices choices;
    WorkerShares shares(job, options, choices);
    EXPECT_TRUE(shares.due(50));
    EXPECT_FALSE(shares.due(100));
    EXPECT_TRUE(shares.adapt(50));
    EXPECT_THAT(choices.shares, ElementsAre(0.7, 0.3));
    EXPECT_FALSE(shares.adapt(50));  // again, where an attempt resumes there
    EXPECT_TRUE(shares.adapt(150));
    EXPECT_THAT(choices.shares, ElementsAre(0.6, 0.4));
  });
}

TEST(WorkerShares, StayWithTheirWorkersInTheNextMembership) {
  with_elastic_job(3, [](Job& job) {
    const int number = job.rank();
    TrainOptions options;
    options.workers.shares = Shares::kMeasured;
    Choices choices;
    WorkerShares shares(job, options, choices);
    choices.shares = {0.5, 0.3, 0.2};
    if (number == 1) return job.barrier();
    EXPECT_THROW(while (true) job.barrier(), WorkerLost);
    job.membership()->form_next({});
    shares.rejoin(57);
    EXPECT_THAT(choices.shares, ElementsAre(0.5, 0.2));
    EXPECT_THAT(shares.workers(), ElementsAre(0, 2));
    EXPECT_EQ(shares.record().step, 57u);
    EXPECT_THAT(shares.record().workers, ElementsAre(0u, 2u));
    shares.rejoin(57);  // once more
    EXPECT_THAT(choices.shares, ElementsAre(0.5, 0.2));
    job.leave();
  });
}

}  // namespace
}  // namespace reigen
