// Batches and their shares: complete, bounded, balanced, resumable with any number of workers.
#include "data/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "data/prepare/prepare.h"
#include "support/sample_data.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

class BatchesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    CorpusSpec train = write_sample_corpus(dir_->path(), "a", 3000);
    PrepareOptions options = sample_options(train, dir_->path("out"));
    options.shard_tokens = 10'000;
    prepare(options);
    dataset_ = new Dataset(dir_->path("out"), read_manifest(dir_->path("out")).train, 10'000);
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete dir_;
  }
  static TempDir* dir_;
  static Dataset* dataset_;
};
TempDir* BatchesTest::dir_ = nullptr;
Dataset* BatchesTest::dataset_ = nullptr;

TEST_F(BatchesTest, AreFilledUpToTheTokenLimit) {
  BatchStream stream(*dataset_, 1, {.target_tokens = 1000});
  for (int i = 0; i < 100; ++i) {
    GlobalBatch batch = stream.next();
    uint64_t tokens = 0;
    for (const auto& pair : batch.pairs) {
      EXPECT_EQ(pair.first_target_token, tokens);
      tokens += dataset_->target_length(pair.pair);
    }
    EXPECT_EQ(batch.target_tokens, tokens);
    EXPECT_LE(tokens, 1000u);
    EXPECT_GT(tokens, 1000u - 80);  // the next pair did not fit
  }
}

TEST_F(BatchesTest, ShowEveryPairExactlyOncePerEpoch) {
  BatchStream stream(*dataset_, 1, {.pairs = 64});
  std::map<uint64_t, int> seen;
  for (int i = 0; i < 3000 * 4 / 64; ++i) {
    GlobalBatch batch = stream.next();
    EXPECT_EQ(batch.pairs.size(), 64u);
    for (const auto& pair : batch.pairs) ++seen[pair.pair];
  }
  // 187 batches are 11,968 of the 12,000 pairs of four epochs: 32 pairs were shown only three
  // times.
  int short_by_one = 0;
  for (const auto& [pair, times] : seen) {
    ASSERT_TRUE(times == 4 || times == 3);
    short_by_one += times == 3;
  }
  EXPECT_EQ(seen.size(), 3000u);
  EXPECT_EQ(short_by_one, 32);
}

TEST_F(BatchesTest, ContinueFromASavedCursorIdentically) {
  BatchStream whole(*dataset_, 5, {.target_tokens = 3000});
  std::vector<Cursor> cursors;
  std::vector<std::vector<uint64_t>> batches;
  auto numbers = [](const GlobalBatch& batch) {
    std::vector<uint64_t> pairs;
    for (const auto& pair : batch.pairs) pairs.push_back(pair.pair);
    return pairs;
  };
  for (int i = 0; i < 60; ++i) {
    cursors.push_back(whole.cursor());
    batches.push_back(numbers(whole.next()));
  }
  EXPECT_GT(cursors.back().epoch, 0u);
  for (size_t i : {1, 30, 59}) {
    BatchStream resumed(*dataset_, 5, {.target_tokens = 3000});
    resumed.seek(cursors[i]);
    EXPECT_EQ(resumed.cursor(), cursors[i]);
    EXPECT_EQ(numbers(resumed.next()), batches[i]);
  }
  BatchStream other(*dataset_, 5, {.target_tokens = 3000});
  EXPECT_THROW(other.seek({0, 3000}), DataError);
}

TEST_F(BatchesTest, APairLongerThanTheLimitIsABatchOfItsOwn) {
  BatchStream stream(*dataset_, 1, {.target_tokens = 1});
  EXPECT_EQ(stream.next().pairs.size(), 1u);
}

TEST_F(BatchesTest, RejectAnAmbiguousSize) {
  EXPECT_THROW(BatchStream(*dataset_, 1, {}), ConfigError);
  EXPECT_THROW(BatchStream(*dataset_, 1, {.target_tokens = 5, .pairs = 5}), ConfigError);
}

std::vector<double> costs_of(const GlobalBatch& batch,
                             const std::vector<std::vector<uint32_t>>& shares) {
  std::vector<double> costs;
  for (const auto& share : shares) {
    double sum = 0;
    for (uint32_t index : share) sum += PairCost{}.of(batch.pairs[index]);
    costs.push_back(sum);
  }
  return costs;
}

TEST_F(BatchesTest, AreSharedOutCompletelyAndEvenly) {
  BatchStream stream(*dataset_, 1, {.target_tokens = 4000});
  GlobalBatch batch = stream.next();
  for (size_t workers : {1, 2, 3, 4, 8}) {
    auto shares = share_out(batch, std::vector<double>(workers, 1.0));
    std::vector<uint32_t> all;
    for (const auto& share : shares) {
      EXPECT_TRUE(std::is_sorted(share.begin(), share.end()));
      all.insert(all.end(), share.begin(), share.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<uint32_t> expected(batch.pairs.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
    auto costs = costs_of(batch, shares);
    double least = *std::min_element(costs.begin(), costs.end());
    double most = *std::max_element(costs.begin(), costs.end());
    EXPECT_LT(most / least, 1.05) << workers;
  }
}

TEST_F(BatchesTest, AreSharedOutBySpeed) {
  BatchStream stream(*dataset_, 1, {.target_tokens = 8000});
  GlobalBatch batch = stream.next();
  std::vector<double> speeds = {3, 1};
  auto costs = costs_of(batch, share_out(batch, speeds));
  EXPECT_NEAR(costs[0] / costs[1], 3, 0.15);
}

TEST_F(BatchesTest, GiveEveryWorkerAPairIfThereAreEnough) {
  BatchStream stream(*dataset_, 1, {.pairs = 4});
  GlobalBatch batch = stream.next();
  std::vector<double> speeds = {100, 1, 1, 1};
  for (const auto& share : share_out(batch, speeds)) EXPECT_EQ(share.size(), 1u);
  speeds = {1, 1, 1, 1, 1, 1};
  auto shares = share_out(batch, speeds);
  EXPECT_EQ(std::count_if(shares.begin(), shares.end(), [](auto& s) { return s.empty(); }), 2);
}

TEST_F(BatchesTest, RejectWorkersWithoutASpeed) {
  BatchStream stream(*dataset_, 1, {.pairs = 4});
  GlobalBatch batch = stream.next();
  EXPECT_THROW(share_out(batch, {}), ConfigError);
  EXPECT_THROW(share_out(batch, std::vector<double>{1, 0}), ConfigError);
  EXPECT_THROW(share_out(batch, std::vector<double>{1, NAN}), ConfigError);
}

TEST_F(BatchesTest, ArePackedWithoutPaddingWithGlobalTokenNumbers) {
  BatchStream stream(*dataset_, 1, {.pairs = 10});
  GlobalBatch batch = stream.next();
  std::vector<uint32_t> indices = {2, 7};
  constexpr uint32_t kBos = 2;
  PackedBatch packed = pack(*dataset_, batch, indices, kBos);
  ASSERT_EQ(packed.source_offsets.size(), 3u);
  EXPECT_EQ(packed.source.size(), packed.source_offsets[2]);
  EXPECT_EQ(packed.target_in.size(), packed.target_out.size());
  EXPECT_EQ(packed.target_out.size(), packed.target_offsets[2]);
  std::vector<uint32_t> target;
  dataset_->append_target(batch.pairs[7].pair, target);
  uint32_t begin = packed.target_offsets[1];
  EXPECT_TRUE(std::equal(target.begin(), target.end(), packed.target_out.begin() + begin));
  EXPECT_EQ(packed.target_in[begin], kBos);
  EXPECT_TRUE(std::equal(target.begin(), target.end() - 1, packed.target_in.begin() + begin + 1));
  EXPECT_EQ(packed.first_target_token[1], batch.pairs[7].first_target_token);
  EXPECT_EQ(packed.first_source_token[0], batch.pairs[2].first_source_token);
}

TEST_F(BatchesTest, AreSplitIntoMicroBatchesInOrderWithinTheLimit) {
  BatchStream stream(*dataset_, 1, {.pairs = 200});
  const GlobalBatch batch = stream.next();
  auto tokens_of = [&](uint32_t index) {
    return uint64_t{batch.pairs[index].source_length} + batch.pairs[index].target_length;
  };
  for (uint64_t most : {1, 60, 500, 3000, 1'000'000}) {
    const auto runs = split_by_tokens(batch, most);
    uint32_t expected = 0;
    for (size_t r = 0; r < runs.size(); ++r) {
      ASSERT_FALSE(runs[r].empty());
      uint64_t tokens = 0;
      for (uint32_t index : runs[r]) {
        EXPECT_EQ(index, expected++);
        tokens += tokens_of(index);
      }
      EXPECT_TRUE(tokens <= most || runs[r].size() == 1) << tokens << " of " << most;
      // Every micro-batch is filled.
      if (r > 0) {
        uint64_t before = 0;
        for (uint32_t index : runs[r - 1]) before += tokens_of(index);
        EXPECT_GT(before + tokens_of(runs[r][0]), most);
      }
    }
    EXPECT_EQ(expected, batch.pairs.size());
  }
  EXPECT_EQ(split_by_tokens(batch, 1).size(), batch.pairs.size());
  EXPECT_EQ(split_by_tokens(batch, 1'000'000).size(), 1u);
}

TEST(SplitByTokens, FillsAMicroBatchToExactlyTheLimit) {
  GlobalBatch batch;
  for (uint32_t length : {3, 2, 5, 11, 1}) {
    batch.pairs.push_back({.source_length = length, .target_length = length});
  }
  using Runs = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(split_by_tokens(batch, 10), (Runs{{0, 1}, {2}, {3}, {4}}));
  EXPECT_EQ(split_by_tokens(batch, 9), (Runs{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(split_by_tokens({}, 10), Runs{});
}

}  // namespace
}  // namespace reigen
