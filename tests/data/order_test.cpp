// The order of an epoch: complete, random, and a pure function of seed and epoch.
#include "data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace reigen {
namespace {

TEST(Permutation, ReturnsEveryNumberOnce) {
  for (uint64_t n : {1, 2, 3, 4, 5, 16, 17, 1000, 65'536, 65'537}) {
    Permutation permutation(n, 42);
    std::vector<bool> seen(n);
    for (uint64_t i = 0; i < n; ++i) {
      uint64_t to = permutation(i);
      ASSERT_LT(to, n);
      ASSERT_FALSE(seen[to]) << n << " " << i;
      seen[to] = true;
    }
  }
}

TEST(Permutation, IsDistributedLikeAShuffle) {
  // The positions of the first hundredth: with 100 bins of 100 expected, chi-squared has mean 99
  // and standard deviation 14; five deviations leave one false alarm in a million.
  constexpr uint64_t kN = 1'000'000;
  Permutation permutation(kN, 7);
  std::vector<double> bins(100);
  for (uint64_t i = 0; i < kN / 100; ++i) ++bins[permutation(i) / (kN / 100)];
  double chi = 0;
  for (double b : bins) chi += (b - 100) * (b - 100) / 100;
  EXPECT_GT(chi, 99 - 5 * 14);
  EXPECT_LT(chi, 99 + 5 * 14);
}

TEST(Permutation, SeparatesNeighbours) {
  constexpr uint64_t kN = 100'000;
  Permutation permutation(kN, 3);
  double mean = (kN - 1) / 2.0;
  double covariance = 0;
  double variance = 0;
  for (uint64_t i = 0; i + 1 < kN; ++i) {
    double a = static_cast<double>(permutation(i)) - mean;
    double b = static_cast<double>(permutation(i + 1)) - mean;
    covariance += a * b;
    variance += a * a;
  }
  EXPECT_LT(std::abs(covariance / variance), 5 / std::sqrt(static_cast<double>(kN)));
}

std::vector<uint64_t> order_of(const std::vector<Dataset::CorpusRange>& corpora, uint64_t seed,
                               uint64_t epoch) {
  EpochOrder order(corpora, seed, epoch);
  std::vector<uint64_t> pairs(order.size());
  for (uint64_t i = 0; i < pairs.size(); ++i) pairs[i] = order.pair_at(i);
  return pairs;
}

TEST(EpochOrder, ShowsEveryPairOnceAndDependsOnSeedAndEpochOnly) {
  std::vector<Dataset::CorpusRange> corpora = {{0, 300, 1}, {300, 200, 1}};
  auto first = order_of(corpora, 1, 0);
  EXPECT_EQ(first, order_of(corpora, 1, 0));
  EXPECT_NE(first, order_of(corpora, 1, 1));
  EXPECT_NE(first, order_of(corpora, 2, 0));
  std::sort(first.begin(), first.end());
  std::vector<uint64_t> all(500);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(first, all);
}

TEST(EpochOrder, ShowsPairsInProportionToTheirWeight) {
  std::vector<Dataset::CorpusRange> corpora = {{0, 100, 2.5}, {100, 100, 0.25}, {200, 10, 1}};
  std::map<uint64_t, int> light;
  for (uint64_t epoch = 0; epoch < 40; ++epoch) {
    std::map<uint64_t, int> counts;
    for (uint64_t pair : order_of(corpora, 1, epoch)) ++counts[pair];
    int heavy = 0;
    for (uint64_t pair = 0; pair < 100; ++pair) {
      ASSERT_TRUE(counts[pair] == 2 || counts[pair] == 3);
      heavy += counts[pair];
    }
    EXPECT_EQ(heavy, 250);
    for (uint64_t pair = 100; pair < 200; ++pair) {
      ASSERT_LE(counts[pair], 1);
      light[pair] += counts[pair];
    }
    for (uint64_t pair = 200; pair < 210; ++pair) ASSERT_EQ(counts[pair], 1);
  }
  // A different quarter in each epoch: over 40 epochs every pair was shown.
  for (uint64_t pair = 100; pair < 200; ++pair) EXPECT_GT(light[pair], 0) << pair;
}

TEST(EpochOrder, WorksForTenBillionPairsWithoutAList) {
  std::vector<Dataset::CorpusRange> huge = {{0, 10'000'000'000, 1}};
  EpochOrder order(huge, 1, 0);
  EXPECT_EQ(order.size(), 10'000'000'000u);
  EXPECT_LT(order.pair_at(9'999'999'999), 10'000'000'000u);
}

}  // namespace
}  // namespace reigen
