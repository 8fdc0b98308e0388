#include "dist/compress/bucket_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "dist/group/group_fixture.h"

namespace reigen {
namespace {

TEST(BucketReducer, SumsEverythingHoweverItBecomesReady) {
  with_group(3, [](Group& group) {
    std::vector<float> gradient(10'007);
    BucketReducer reducer(group, gradient, 1000, Wire::kFp32);
    for (int step = 0; step < 3; ++step) {
      std::iota(gradient.begin(), gradient.end(), static_cast<float>(group.rank()));
      reducer.begin();
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

TEST(BucketReducer, BucketsLeaveWhileTheRestIsComputed) {
  with_group(2, [](Group& group) {
    std::vector<float> gradient(409'600, 1.0f);
    BucketReducer reducer(group, gradient, 102'400, Wire::kBf16);
    reducer.begin();
    reducer.ready(250'000);  // two whole buckets
    while (group.counters()[static_cast<size_t>(OpKind::kAllReduce)].operations < 2) {
      std::this_thread::yield();
    }
    EXPECT_EQ(gradient[204'799], 2.0f);
    EXPECT_EQ(gradient[204'800], 1.0f);  // not a part of a bucket
    ASSERT_TRUE(reducer.finish().ok());
    EXPECT_THAT(gradient, testing::Each(2.0f));

    const ReduceTimes times = reducer.times();
    EXPECT_GT(times.hidden, 0);
    EXPECT_GT(times.exposed, 0);
    EXPECT_GE(times.busy, times.hidden);
    EXPECT_LE(times.hidden, times.hideable * 1.001);
    const auto& buckets = reducer.buckets();
    for (size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_LE(buckets[i].ready, buckets[i].begin);
      EXPECT_LE(buckets[i].begin, buckets[i].end);
    }
    EXPECT_TRUE(group.leave().ok());
  });
}

TEST(BucketReducer, AGradientSmallerThanABucketIsOne) {
  with_group(1, [](Group& group) {
    std::vector<float> gradient(3, 1.0f);
    BucketReducer reducer(group, gradient, 1000, Wire::kFp32);
    reducer.begin();
    ASSERT_TRUE(reducer.finish().ok());
    ASSERT_EQ(reducer.buckets().size(), 1u);
    EXPECT_EQ(reducer.buckets()[0].elements, 3u);
    EXPECT_EQ(reducer.times().hidden, 0);
  });
}

TEST(BucketReducer, ALossIsWhatFinishReturns) {
  with_group(2, [](Group& group) {
    std::vector<float> gradient(100'000, 1.0f);
    BucketReducer reducer(group, gradient, 10'000, Wire::kFp32);
    reducer.begin();
    reducer.ready(50'000);
    if (group.rank() == 1) return group.close();
    EXPECT_EQ(reducer.finish().state, CommState::kLostPeer);
  });
}

}  // namespace
}  // namespace reigen
