// The operations of decoding against double-precision references: attention over picked cache rows
// against plain attention over the rows gathered, the beam step against sorting every candidate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/hash.h"
#include "ops/beam_step.h"
#include "ops/cached_attention.h"
#include "ops/op_test_support.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::random;

class DecodeOps : public ::testing::TestWithParam<int> {
 protected:
  Device device_ = Device::cpu(GetParam());
};

Matrix gathered(const Matrix& from, std::span<const uint32_t> picks) {
  Matrix out(static_cast<int64_t>(picks.size()), from.cols);
  for (size_t i = 0; i < picks.size(); ++i) {
    for (int64_t c = 0; c < from.cols; ++c)
      out.at(static_cast<int64_t>(i), c) = from.at(picks[i], c);
  }
  return out;
}

TEST_P(DecodeOps, CachedAttentionSeesExactlyTheRowsItPicks) {
  for (int64_t width : {64, 16, 5, 80}) {
    const int heads = 3;
    const int64_t cols = heads * width;
    const int64_t cache = 50;
    // One key, a handful, repeated keys, more than a vector of them; lists overlap.
    std::vector<uint32_t> picks;
    for (uint32_t i = 0; i < 60; ++i) picks.push_back(static_cast<uint32_t>(mix64(i) % cache));
    const std::vector<uint32_t> begin = {0, 3, 3, 10, 20, 7, 59, 0, 11};
    const std::vector<uint32_t> count = {1, 4, 7, 17, 33, 2, 1, 60, 16};
    const auto rows = static_cast<int64_t>(begin.size());
    Matrix q = random(rows, cols, 1), k = random(cache, cols, 2), v = random(cache, cols, 3);
    for (double& x : q.values) x = static_cast<float>(4 * x);  // peaked weights, too
    Buffer fq(q, cols + 7), fk(k, 3 * cols), fv(v, cols + 1), out(rows, cols);
    cached_attention(device_, {.q = fq.tensor(),
                               .k = fk.tensor(),
                               .v = fv.tensor(),
                               .keys = {picks, begin, count},
                               .heads = heads,
                               .out = out.tensor()});
    Matrix wanted(rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<size_t>(r);
      std::span<const uint32_t> own = std::span(picks).subspan(begin[row], count[row]);
      std::vector<uint32_t> query = {static_cast<uint32_t>(r)};
      Matrix one = reference::attention(gathered(q, query), gathered(k, own), gathered(v, own),
                                        std::vector<uint32_t>{0, 1},
                                        std::vector<uint32_t>{0, count[row]}, heads, false, {});
      for (int64_t c = 0; c < cols; ++c) wanted.at(r, c) = one.at(0, c);
    }
    EXPECT_LT(relative_error(out.values(), wanted), 2e-6) << width;
  }
}

struct Best {
  std::vector<uint32_t> rows;
  std::vector<uint32_t> tokens;
  std::vector<double> totals;
};

Best run_beam_step(const Device& device, Buffer& logits, const std::vector<double>& scores,
                   const std::vector<uint32_t>& offsets, int64_t keep) {
  const size_t n = (offsets.size() - 1) * static_cast<size_t>(keep);
  Best best{std::vector<uint32_t>(n), std::vector<uint32_t>(n), std::vector<double>(n)};
  beam_step(device, {.logits = logits.tensor(),
                     .scores = scores,
                     .row_offsets = offsets,
                     .keep = keep,
                     .rows = best.rows,
                     .tokens = best.tokens,
                     .totals = best.totals});
  return best;
}

// (score, row, token) of every candidate of a sentence, best first.
std::vector<std::tuple<double, uint32_t, uint32_t>> sorted_candidates(
    const Matrix& logits, const std::vector<double>& scores, uint32_t begin, uint32_t end) {
  std::vector<std::tuple<double, uint32_t, uint32_t>> all;
  for (uint32_t r = begin; r < end; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < logits.cols; ++c) sum += std::exp(logits.at(r, c));
    for (int64_t c = 0; c < logits.cols; ++c) {
      all.emplace_back(-(scores[r] + logits.at(r, c) - std::log(sum)), r, static_cast<uint32_t>(c));
    }
  }
  std::sort(all.begin(), all.end());
  for (auto& candidate : all) std::get<0>(candidate) *= -1;
  return all;
}

TEST_P(DecodeOps, BeamStepGivesTheBestCandidatesOfEachSentence) {
  const std::vector<uint32_t> offsets = {0, 4, 5, 5, 9, 12};  // one sentence without rows
  for (int64_t vocabulary : {1000, 997, 70, 3}) {
    for (int64_t keep : {1, 2, 8, 40}) {
      Matrix logits = random(12, vocabulary, static_cast<uint64_t>(vocabulary));
      for (double& x : logits.values) x = static_cast<float>(x * 8);
      std::vector<double> scores;
      for (int r = 0; r < 12; ++r) scores.push_back(-50 - 0.37 * r);
      Buffer flogits(logits, vocabulary + 5);
      Best best = run_beam_step(device_, flogits, scores, offsets, keep);
      for (size_t s = 0; s + 1 < offsets.size(); ++s) {
        auto wanted = sorted_candidates(logits, scores, offsets[s], offsets[s + 1]);
        for (size_t i = 0; i < static_cast<size_t>(keep); ++i) {
          const size_t at = s * static_cast<size_t>(keep) + i;
          if (i >= wanted.size()) {
            EXPECT_EQ(best.totals[at], -std::numeric_limits<double>::infinity());
            continue;
          }
          EXPECT_NEAR(best.totals[at], std::get<0>(wanted[i]), 1e-5);
          EXPECT_EQ(best.rows[at], std::get<1>(wanted[i])) << vocabulary << " " << keep;
          EXPECT_EQ(best.tokens[at], std::get<2>(wanted[i])) << vocabulary << " " << keep;
        }
      }
    }
  }
}

TEST_P(DecodeOps, BeamStepBreaksTiesByLowerRowThenLowerToken) {
  Buffer logits(3, 100, 0.5F);  // everything is equal
  Best best = run_beam_step(device_, logits, {-1, -1, -1}, {0, 3}, 5);
  EXPECT_EQ(best.rows, (std::vector<uint32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(best.tokens, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c : {99, 40, 7}) logits.tensor().row(r)[c] = 3;
  }
  best = run_beam_step(device_, logits, {-1, -1, -1}, {0, 3}, 5);
  EXPECT_EQ(best.rows, (std::vector<uint32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(best.tokens, (std::vector<uint32_t>{7, 40, 99, 7, 40}));
}

TEST_P(DecodeOps, BeamStepTakesNothingFromARowThatIsNotNumbers) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Buffer logits(2, 100, 0.5F);
    logits.tensor().row(0)[33] = bad;
    Best best = run_beam_step(device_, logits, {-1, -20}, {0, 1, 2}, 2);
    EXPECT_EQ(best.totals[0], -std::numeric_limits<double>::infinity());
    EXPECT_NEAR(best.totals[2], -20 - std::log(100), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, DecodeOps, ::testing::Values(1, 2));

}  // namespace
}  // namespace reigen
