#include "plan/bucket_size.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(BucketSize, ARequestIsInBytesAndHasALowerLimit) {
  WorkerOptions options;
  options.bucket = 0;
  EXPECT_EQ(requested_bucket(options), 0U);
  options.bucket = 1 << 20;
  EXPECT_EQ(requested_bucket(options), 1U << 18);
  options.bucket = 16;
  EXPECT_EQ(requested_bucket(options), 1U << 10);
}

TEST(BucketSize, IsTheSmallestMessageAtNearlyFullThroughput) {
  const std::vector<CurvePoint> curve = {{1 << 18, 0.1}, {1 << 22, 0.41}, {1 << 24, 1.6}};
  EXPECT_EQ(bucket_for_link(1 << 26, curve), (1U << 22) / 4);
}

TEST(BucketSize, IsAtMostASixteenthOfTheGradient) {
  const std::vector<CurvePoint> curve = {{1 << 18, 0.5}, {1 << 26, 1}};
  EXPECT_EQ(bucket_for_link(1 << 23, curve), (1U << 23) / 16);
  EXPECT_EQ(bucket_for_link(100, curve), 1U << 18);
}

}  // namespace
}  // namespace reigen
