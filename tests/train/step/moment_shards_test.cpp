// Moments divided among ranks that are threads of this process.
#include "train/step/moment_shards.h"

#include <gtest/gtest.h>

#include <numeric>

#include "dist/members/job_fixture.h"

namespace reigen {
namespace {

constexpr size_t kElements = 5000;  // not a multiple of the ranks

TrainState full_state() {
  TrainState state;
  for (auto* values : {&state.parameters, &state.first_moment, &state.second_moment}) {
    values->resize(kElements);
  }
  std::iota(state.parameters.begin(), state.parameters.end(), 0.0F);
  std::iota(state.first_moment.begin(), state.first_moment.end(), 10'000.0F);
  std::iota(state.second_moment.begin(), state.second_moment.end(), 20'000.0F);
  return state;
}

TEST(MomentShards, EachRankHasTheMomentsOfItsChunk) {
  with_job(3, [](Job& job) {
    TrainState state = full_state();
    const MomentShards shards(job, state);
    const ChunkRange own = chunk_of(kElements, job.rank(), 3);
    ASSERT_EQ(state.first_moment.size(), own.size());
    ASSERT_EQ(state.second_moment.size(), own.size());
    EXPECT_EQ(state.parameters.size(), kElements);
    const std::span<float> parameters = shards.own_of(state.parameters);
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ(state.first_moment[i], parameters[i] + 10'000);
      EXPECT_EQ(state.second_moment[i], parameters[i] + 20'000);
    }
  });
}

TEST(MomentShards, AllRanksGetAllUpdatedParameters) {
  with_job(3, [](Job& job) {
    TrainState state = full_state();
    MomentShards shards(job, state);
    for (float& x : shards.own_of(state.parameters)) x = -x;
    shards.share_parameters();
    for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(state.parameters[i], -static_cast<float>(i));
  });
}

TEST(MomentShards, RankZeroHasAllMomentsForACheckpoint) {
  with_job(3, [](Job& job) {
    const TrainState full = full_state();
    TrainState state = full;
    MomentShards shards(job, state);
    const TrainState sharded = state;
    for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
      shards.collect();
      EXPECT_EQ(state.first_moment, job.first() ? full.first_moment : sharded.first_moment);
      EXPECT_EQ(state.second_moment, job.first() ? full.second_moment : sharded.second_moment);
      shards.release();
      EXPECT_EQ(state.first_moment, sharded.first_moment);
      EXPECT_EQ(state.second_moment, sharded.second_moment);
    }
  });
}

}  // namespace
}  // namespace reigen
