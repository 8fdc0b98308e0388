#include "dist/compress/bucket_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "dist/group/group_fixture.h"

namespace reigen {
namespace {

TEST(BucketReducer, SumsTheWholeGradientInAnyOrderOfReadyCalls) {
  with_group(3, [](Group& group) {
    std::vector<float> gradient(10'007);
    BucketReducer reducer(group, 1000, Wire::kFp32);
    for (int step = 0; step < 3; ++step) {
      std::iota(gradient.begin(), gradient.end(), static_cast<float>(group.rank()));
      reducer.begin(gradient);
      for (size_t n : {0, 5, 999, 1500, 1500, 7000}) reducer.ready(n);
      ASSERT_TRUE(reducer.finish().ok());
      for (size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_EQ(gradient[i], 3 * static_cast<float>(i) + 3);
      }
      EXPECT_EQ(reducer.buckets().size(), 10u);
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(BucketReducer, CompleteBucketsAreSentBeforeFinish) {
  with_group(2, [](Group& group) {
    std::vector<float> gradient(409'600, 1.0f);
    BucketReducer reducer(group, 102'400, Wire::kBf16);
    reducer.begin(gradient);
    reducer.ready(250'000);  // two whole buckets
    while (group.counters()[static_cast<size_t>(OpKind::kAllReduce)].operations < 2) {
      std::this_thread::yield();
    }
    EXPECT_EQ(gradient[204'799], 2.0f);
    EXPECT_EQ(gradient[204'800], 1.0f);  // the bucket is incomplete
    ASSERT_TRUE(reducer.finish().ok());
    EXPECT_THAT(gradient, testing::Each(2.0f));

    const ReduceTimes times = reducer.times();
    EXPECT_GT(times.hidden, 0);
    EXPECT_GT(times.exposed, 0);
    EXPECT_GE(times.busy, times.hidden);
    EXPECT_LE(times.hidden, times.hidden_at_best * 1.001);
    const auto& buckets = reducer.buckets();
    for (size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_LE(buckets[i].queued, buckets[i].begin);
      EXPECT_LE(buckets[i].begin, buckets[i].end);
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(BucketReducer, ASmallGradientIsOneBucket) {
  with_group(1, [](Group& group) {
    std::vector<float> gradient(3, 1.0f);
    BucketReducer reducer(group, 1000, Wire::kFp32);
    reducer.begin(gradient);
    ASSERT_TRUE(reducer.finish().ok());
    ASSERT_EQ(reducer.buckets().size(), 1u);
    EXPECT_THAT(gradient, testing::Each(1.0f));
    EXPECT_EQ(reducer.times().hidden, 0);
  });
}

TEST(BucketReducer, FinishReturnsTheLossOfAPeer) {
  with_group(2, [](Group& group) {
    std::vector<float> gradient(100'000, 1.0f);
    BucketReducer reducer(group, 10'000, Wire::kFp32);
    reducer.begin(gradient);
    reducer.ready(50'000);
    if (group.rank() == 1) return group.close();
    EXPECT_EQ(reducer.finish().state, CommState::kLostPeer);
  });
}

}  // namespace
}  // namespace reigen
