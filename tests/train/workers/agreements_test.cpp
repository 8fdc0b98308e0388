// Agreements between ranks that are threads of this process.
#include "train/workers/agreements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "dist/members/job_fixture.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(Agreements, OptionsAreRankZerosExceptForThoseOfTheMachine) {
  with_job(2, [](Job& job) {
    TrainOptions mine;
    mine.run = "run";
    mine.max_steps = job.first() ? 10 : 20;
    mine.seed = job.first() ? 3 : 4;
    mine.threads = job.rank() + 1;
    mine.data = job.first() ? "here" : "there";
    const TrainOptions agreed = shared_options(job, mine);
    EXPECT_EQ(agreed.max_steps, 10);
    EXPECT_EQ(agreed.seed, 3);
    EXPECT_EQ(agreed.threads, job.rank() + 1);
    EXPECT_EQ(agreed.data, job.first() ? "here" : "there");
  });
}

TEST(Agreements, DifferentDataIsAnErrorThatNamesTheRank) {
  with_job(3, [](Job& job) {
    EXPECT_NO_THROW(check_same_data(job, "same", "data"));
    try {
      check_same_data(job, job.rank() == 2 ? "other" : "same", "data");
      ADD_FAILURE() << "rank " << job.rank() << " has thrown nothing";
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr("rank 2"));
      EXPECT_THAT(e.what(), HasSubstr("host2"));
    }
  });
}

TEST(Agreements, ScoresOfRankZeroReachAllRanks) {
  with_job(2, [](Job& job) {
    EvaluationRecord record;
    share_scores(job, record);
    EXPECT_FALSE(record.bleu);
    if (job.first()) record.bleu = 31.25, record.chrf = 0.1;
    share_scores(job, record);
    EXPECT_EQ(record.bleu, 31.25);
    EXPECT_EQ(record.chrf, 0.1);
  });
}

TEST(Agreements, TheBucketIsAsGivenOrAsRecordedByRankZero) {
  with_job(2, [](Job& job) {
    Choices choices;
    choices.bucket = job.first() ? 777 : 0;
    choose_bucket(job, {}, 1'000'000, {}, choices);
    EXPECT_EQ(choices.bucket, 777u);
    WorkerOptions options;
    options.bucket = 4000;
    choose_bucket(job, options, 1'000'000, {}, choices);
    EXPECT_EQ(choices.bucket, requested_bucket(options));
  });
}

TEST(Agreements, RanksWhoseWeightsDriftedTakeRankZerosState) {
  CaptureStderr();
  with_job(3, [](Job& job) {
    TrainState state;
    state.parameters = {1, 2};
    state.first_moment = {3, 4};
    state.second_moment = {5, 6};
    EXPECT_TRUE(check_same_weights(job, state, false));
    const TrainState first = state;
    if (job.rank() == 1) state.second_moment[1] = 7;
    EXPECT_FALSE(check_same_weights(job, state, false));
    EXPECT_EQ(state.second_moment, first.second_moment);
    // Moments that differ by design are left alone.
    state.second_moment[0] = static_cast<float>(job.rank());
    EXPECT_TRUE(check_same_weights(job, state, true));
    if (job.rank() == 2) state.parameters[0] = 9;
    EXPECT_FALSE(check_same_weights(job, state, true));
    EXPECT_EQ(state.parameters, first.parameters);
    EXPECT_EQ(state.second_moment[0], static_cast<float>(job.rank()));
  });
  const std::string text = GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("ranks 1 "));
  EXPECT_THAT(text, HasSubstr("ranks 2 "));
}

TEST(Agreements, WorkersOnTheCpuShareNoGpu) {
  with_job(2, [](Job& job) { EXPECT_EQ(workers_on_gpu(job, Device::cpu(1)), 1); });
}

}  // namespace
}  // namespace reigen
