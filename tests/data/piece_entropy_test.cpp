// The loss of a model that knows only how often each piece occurs.
#include "data/piece_entropy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/temp_dir.h"

namespace reigen {
namespace {

// Four pairs whose targets are one piece and the end of sentence: half of all tokens are the end.
Dataset four_pairs(const TempDir& dir, const std::vector<uint32_t>& targets) {
  ShardBuilder builder(100);
  for (const uint32_t target : targets) {
    builder.add(std::vector<uint32_t>{5}, std::vector<uint32_t>{target}, 1);
  }
  CorpusFacts corpus;
  corpus.name = "train";
  corpus.lines_kept = targets.size();
  corpus.source.lengths.counts = {{1, targets.size()}};
  corpus.target.lengths.counts = {{1, targets.size()}};
  corpus.shards = {builder.write(dir.path(), "a.shard")};
  return {dir.path(), {corpus}, 100};
}

TEST(PieceEntropy, IsThatOfTheSharesOfPieces) {
  TempDir dir;
  // Shares: end 1/2, four pieces 1/8 each.
  EXPECT_NEAR(piece_entropy(four_pairs(dir, {10, 11, 12, 13}), 100),
              0.5 * std::log(2) + 0.5 * std::log(8), 1e-9);
}

TEST(PieceEntropy, IsLessForPiecesThatRepeat) {
  TempDir dir;
  EXPECT_NEAR(piece_entropy(four_pairs(dir, {10, 10, 10, 10}), 100), std::log(2), 1e-9);
}

TEST(PieceEntropy, CountsAnEvenlySpacedSample) {
  TempDir dir;
  // Two of four pairs: the first and the third.
  EXPECT_NEAR(piece_entropy(four_pairs(dir, {10, 11, 10, 12}), 100, 2), std::log(2), 1e-9);
}

}  // namespace
}  // namespace reigen
