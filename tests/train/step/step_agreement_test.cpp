#include "train/step/step_agreement.h"

#include <gtest/gtest.h>

#include "dist/members/job_fixture.h"

namespace reigen {
namespace {

TEST(StepAgreement, SumsTheLossAndFindsTheShortestWait) {
  with_job(3, [](Job& job) {
    const double mine = job.rank() + 1;
    const StepAgreement agreed =
        agree_on_step(job, {.smoothed = mine, .nll = 10 * mine}, true, 0.5 * mine);
    EXPECT_EQ(agreed.sums.smoothed, 6);
    EXPECT_EQ(agreed.sums.nll, 60);
    EXPECT_TRUE(agreed.all_finite);
    EXPECT_EQ(agreed.min_wait_seconds, 0.5);
    EXPECT_EQ(job.agreed().interrupted, 0);
  });
}

TEST(StepAgreement, IsNotFiniteWhereOneRankIsNot) {
  with_job(3, [](Job& job) {
    EXPECT_FALSE(agree_on_step(job, {}, job.rank() != 1, 0).all_finite);
    EXPECT_TRUE(agree_on_step(job, {}, true, 0).all_finite);
  });
}

TEST(StepAgreement, CarriesTheVotesToStop) {
  with_job(2, [](Job& job) {
    job.vote({.interrupted = job.first() ? 0.0 : 1.0});
    agree_on_step(job, {}, true, 0);
    EXPECT_EQ(job.agreed().interrupted, 1);
    EXPECT_EQ(job.agreed().time_over, 0);
  });
}

}  // namespace
}  // namespace reigen
