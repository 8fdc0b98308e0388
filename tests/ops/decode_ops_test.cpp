// The operations of decoding against the double-precision reference: attention over picked cache
// rows against plain attention over the gathered rows, the beam step against sorting every
// candidate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/hash.h"
#include "ops/beam_step.h"
#include "ops/cached_attention.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using reference::normal;

struct Lists {
  std::span<const uint32_t> picks, begin, count;
};

class DecodeOps : public Ops {
 protected:
  // Each row of q over the keys and values of its own list; 0 for a row without any.
  Matrix attended(const Matrix& q, const Matrix& k, const Matrix& v, const Lists& lists,
                  int heads) {
    Matrix out(q.rows, q.cols);
    for (int64_t r = 0; r < q.rows; ++r) {
      const uint32_t count = lists.count[static_cast<size_t>(r)];
      if (count == 0) continue;
      const std::vector<uint32_t> self = {static_cast<uint32_t>(r)};
      const auto own = lists.picks.subspan(lists.begin[static_cast<size_t>(r)], count);
      const Matrix query = gathered(q, self);
      const Matrix one =
          attention(query, gathered(k, own), gathered(v, own), query, std::vector<uint32_t>{0, 1},
                    std::vector<uint32_t>{0, count}, heads, false, {})
              .out;
      for (int64_t c = 0; c < q.cols; ++c) out.at(r, c) = one.at(0, c);
    }
    return out;
  }

  void check_cached_attention(int64_t rows, int heads, int64_t width, uint32_t longest) {
    const int64_t d = heads * width, cache = 700;
    Matrix q = normal(rows, d, 1, 2), k = normal(cache, d, 2), v = normal(cache, d, 3);
    Buffer fq = typed(q, 3 * d), fk = typed(k, 2 * d), fv = typed(v, stride(d));
    Buffer out = empty(rows, d, stride(d));
    std::vector<uint32_t> picks, begin, count;
    for (uint64_t r = 0; r < static_cast<uint64_t>(rows); ++r) {
      if (r % 3 == 2) {  // shares the list of the row before
        begin.push_back(begin.back());
        count.push_back(count.back());
        continue;
      }
      begin.push_back(static_cast<uint32_t>(picks.size()));
      count.push_back(r == 0 ? 1 : 1 + static_cast<uint32_t>(mix64(r) % longest));
      for (uint32_t i = 0; i < count.back(); ++i) {
        picks.push_back(static_cast<uint32_t>(mix64(picks.size() + 77) % cache));
      }
    }
    const StagedLists lists(device(), {picks, begin, count});
    cached_attention(device(), {.q = fq.tensor(),
                                .k = fk.tensor(),
                                .v = fv.tensor(),
                                .keys = {lists[0], lists[1], lists[2]},
                                .heads = heads,
                                .out = out.tensor()});
    const Matrix wanted = attended(q, k, v, {picks, begin, count}, heads);
    expect_close(out, wanted, tolerance(),
                 "width " + std::to_string(width) + ", " + std::to_string(longest) + " keys");
  }

  // Groups of four rows: one list for all, none for some, and lists that differ.
  void check_shared_lists(int64_t rows, int shared, int heads, int64_t width) {
    const int64_t d = heads * width, cache = 300;
    Matrix q = normal(rows, d, 1, 2), k = normal(cache, d, 2), v = normal(cache, d, 3);
    Buffer fq = typed(q, stride(d)), fk = typed(k, 2 * d), fv = typed(v, stride(d));
    Buffer out = empty(rows, d, stride(d));
    std::vector<uint32_t> picks, begin, count;
    for (uint64_t r = 0; r < static_cast<uint64_t>(rows); ++r) {
      const uint64_t kind = mix64(r / 4) % 4;
      if (r % 4 == 0 || kind == 3) {
        begin.push_back(static_cast<uint32_t>(picks.size()));
        count.push_back(1 + static_cast<uint32_t>(mix64(r) % 70));
        for (uint32_t i = 0; i < count.back(); ++i) {
          picks.push_back(static_cast<uint32_t>(mix64(picks.size() + 5) % cache));
        }
        continue;
      }
      begin.push_back(begin.back());
      count.push_back(kind == 0 && gpu() ? 0 : count[r / 4 * 4]);
    }
    const StagedLists lists(device(), {picks, begin, count});
    cached_attention(device(), {.q = fq.tensor(),
                                .k = fk.tensor(),
                                .v = fv.tensor(),
                                .keys = {lists[0], lists[1], lists[2], shared},
                                .heads = heads,
                                .out = out.tensor()});
    const Matrix wanted = attended(q, k, v, {picks, begin, count}, heads);
    expect_close(out, wanted, tolerance(), "shared by " + std::to_string(shared));
  }

  // Each row has two old keys and its own, which is in no cache yet.
  void check_new_keys(int64_t rows, int heads, int64_t width) {
    const int64_t d = heads * width, cache = 3 * rows;
    Matrix fresh = normal(rows, 3 * d, 1), k = normal(cache, d, 2), v = normal(cache, d, 3);
    Buffer ffresh = typed(fresh, 3 * d), fk = typed(k, 2 * d), fv = typed(v, stride(d));
    Buffer out = empty(rows, d, stride(d)), again = empty(rows, d, stride(d));
    std::vector<uint32_t> picks, begin, count;
    for (uint32_t r = 0; r < static_cast<uint32_t>(rows); ++r) {
      begin.push_back(static_cast<uint32_t>(picks.size()));
      for (uint32_t pick : {r, static_cast<uint32_t>(rows), 2 * static_cast<uint32_t>(rows) + r}) {
        picks.push_back(pick);
      }
      count.push_back(3);
    }
    const StagedLists lists(device(), {picks, begin, count});
    CachedAttention op{.q = ffresh.tensor().columns(0, d),
                       .k = fk.tensor(),
                       .v = fv.tensor(),
                       .keys = {lists[0], lists[1], lists[2]},
                       .heads = heads,
                       .out = out.tensor(),
                       .new_k = ffresh.tensor().columns(d, d),
                       .new_v = ffresh.tensor().columns(2 * d, d)};
    cached_attention(device(), op);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < d; ++c) {
        k.at(2 * rows + r, c) = fresh.at(r, d + c);
        v.at(2 * rows + r, c) = fresh.at(r, 2 * d + c);
      }
    }
    op.out = again.tensor();
    op.new_k = op.new_v = {};
    cached_attention(device(), op);  // reads what the first call wrote
    Matrix wanted(rows, d);
    for (int64_t r = 0; r < rows; ++r) {
      const auto own = std::span(picks).subspan(begin[static_cast<size_t>(r)], 3);
      Matrix query(1, d);
      for (int64_t c = 0; c < d; ++c) query.at(0, c) = fresh.at(r, c);
      const Matrix one =
          attention(query, gathered(k, own), gathered(v, own), query, std::vector<uint32_t>{0, 1},
                    std::vector<uint32_t>{0, 3}, heads, false, {})
              .out;
      for (int64_t c = 0; c < d; ++c) wanted.at(r, c) = one.at(0, c);
    }
    expect_close(out, wanted, tolerance(), "with new keys");
    expect_close(again, wanted, tolerance(), "with the same keys in the cache");
  }

  static Matrix gathered(const Matrix& from, std::span<const uint32_t> picks) {
    Matrix out(static_cast<int64_t>(picks.size()), from.cols);
    for (size_t i = 0; i < picks.size(); ++i) {
      for (int64_t c = 0; c < from.cols; ++c) {
        out.at(static_cast<int64_t>(i), c) = from.at(picks[i], c);
      }
    }
    return out;
  }

  struct Best {
    std::vector<uint32_t> rows;
    std::vector<uint32_t> tokens;
    std::vector<double> totals;
  };
  Best run_beam_step(const Buffer& logits, const std::vector<double>& scores,
                     const std::vector<uint32_t>& offsets, int64_t keep) {
    const size_t n = (offsets.size() - 1) * static_cast<size_t>(keep);
    Best best{std::vector<uint32_t>(n), std::vector<uint32_t>(n), std::vector<double>(n)};
    beam_step(device(), {.logits = logits.tensor(),
                         .scores = scores,
                         .row_offsets = offsets,
                         .keep = keep,
                         .rows = best.rows,
                         .tokens = best.tokens,
                         .totals = best.totals});
    return best;
  }
  int64_t logits_stride(int64_t vocabulary) const {
    return gpu() ? (vocabulary + 7) / 8 * 8 + 16 : vocabulary + 5;
  }

  void check_beam_step(int64_t vocabulary, int64_t keep, bool coarse) {
    const std::vector<uint32_t> offsets = {0, 4, 5, 5, 9, 12};  // one sentence without rows
    const std::string which =
        std::to_string(keep) + " of " + std::to_string(vocabulary) + (coarse ? ", many equal" : "");
    Matrix logits = normal(12, vocabulary, static_cast<uint64_t>(vocabulary), 4);
    if (coarse) {
      for (double& x : logits.values) x = std::round(x / 8);  // -0 too
    }
    std::vector<double> scores;
    for (int r = 0; r < 12; ++r) scores.push_back(-50 - 0.37 * r);
    const Buffer flogits = typed(logits, logits_stride(vocabulary));
    const Best best = run_beam_step(flogits, scores, offsets, keep);
    std::vector<double> log_sums;
    for (int64_t r = 0; r < logits.rows; ++r) log_sums.push_back(log_sum(logits, r));
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      const auto wanted =
          sorted_candidates(logits, scores, offsets[s], offsets[s + 1], static_cast<size_t>(keep));
      for (size_t i = 0; i < static_cast<size_t>(keep); ++i) {
        const size_t at = s * static_cast<size_t>(keep) + i;
        if (i >= wanted.size()) {
          EXPECT_EQ(best.totals[at], -std::numeric_limits<double>::infinity()) << which;
          continue;
        }
        ASSERT_NEAR(best.totals[at], std::get<0>(wanted[i]), 2e-5) << which;
        // The score of a candidate is rounded, so that near ties of two rows may change places.
        const uint32_t row = best.rows[at];
        const double got = scores[row] + logits.at(row, best.tokens[at]) - log_sums[row];
        ASSERT_NEAR(got, std::get<0>(wanted[i]), 4e-5) << which;
      }
    }
  }

  static double log_sum(const Matrix& logits, int64_t row) {
    double sum = 0;
    for (int64_t c = 0; c < logits.cols; ++c) sum += std::exp(logits.at(row, c));
    return std::log(sum);
  }
  // (score, row, token) of the best candidates of a sentence, best first.
  static std::vector<std::tuple<double, uint32_t, uint32_t>> sorted_candidates(
      const Matrix& logits, const std::vector<double>& scores, uint32_t begin, uint32_t end,
      size_t keep) {
    std::vector<std::tuple<double, uint32_t, uint32_t>> all;
    for (uint32_t r = begin; r < end; ++r) {
      const double sum = log_sum(logits, r);
      for (int64_t c = 0; c < logits.cols; ++c) {
        all.emplace_back(-(scores[r] + logits.at(r, c) - sum), r, static_cast<uint32_t>(c));
      }
    }
    const size_t best = std::min(keep, all.size());
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(best), all.end());
    all.resize(best);
    for (auto& candidate : all) std::get<0>(candidate) *= -1;
    return all;
  }
};

// These operations know no dropout.
std::vector<OpCase> cases_without_dropout() {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [](const OpCase& c) { return c.dropout > 0; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, DecodeOps, ::testing::ValuesIn(cases_without_dropout()),
                         [](const auto& info) { return info.param.name; });

TEST_P(DecodeOps, CachedAttentionSeesExactlyTheRowsItPicks) {
  for (int64_t width : widths({8, 24, 32, 64, 72, 128, 256}, {5, 16, 80})) {
    check_cached_attention(20, 2, width, 60);
  }
  check_cached_attention(3, 8, 64, 1);
  check_cached_attention(8, 8, 64, 600);
  check_cached_attention(gpu() ? 500 : 50, 8, 64, 40);  // more than fill a GPU
}

TEST_P(DecodeOps, CachedAttentionReadsSharedListsOnce) {
  for (int shared : {1, 2, 4, 6}) {
    check_shared_lists(gpu() ? 600 : 40, shared, 8, 64);
    check_shared_lists(gpu() ? 2400 : 40, shared, 2, 24);
  }
}

TEST_P(DecodeOps, CachedAttentionWritesARowsOwnKeyAndReadsIt) {
  check_new_keys(5, 2, 16);
  check_new_keys(gpu() ? 600 : 60, 8, 64);
}

TEST_P(DecodeOps, BeamStepReturnsTheBestCandidatesOfEachSentence) {
  for (int64_t vocabulary : {1000, 997, 70, 3}) {
    for (int64_t keep : {1, 2, 8, 40}) check_beam_step(vocabulary, keep, false);
  }
  check_beam_step(1'003, 16, true);
  check_beam_step(8'001, 64, false);
  check_beam_step(8'001, 512, true);
  check_beam_step(32'768, 512, false);
  check_beam_step(70'001, 1, false);
}

TEST_P(DecodeOps, BeamStepOrdersTheTokensOfARowExactly) {
  for (auto [vocabulary, keep] : {std::pair{32'768, 5}, {1'003, 16}, {8'001, 512}, {7, 12}}) {
    Matrix logits = normal(1, vocabulary, 3, 4);
    if (keep == 16) {
      for (double& x : logits.values) x = std::round(x / 8);
    }
    const Buffer flogits = typed(logits, logits_stride(vocabulary));
    const Best best = run_beam_step(flogits, {-1}, {0, 1}, keep);
    const auto wanted = sorted_candidates(logits, {-1}, 0, 1, static_cast<size_t>(keep));
    for (size_t i = 0; i < static_cast<size_t>(std::min(keep, vocabulary)); ++i) {
      ASSERT_EQ(best.tokens[i], std::get<2>(wanted[i])) << keep << " of " << vocabulary;
    }
  }
}

TEST_P(DecodeOps, BeamStepBreaksTiesByLowerRowThenLowerToken) {
  Matrix equal(3, 100, 0.5);
  const Buffer logits = typed(equal, 104);
  Best best = run_beam_step(logits, {-1, -1, -1}, {0, 3}, 5);
  EXPECT_EQ(best.rows, (std::vector<uint32_t>{0, 0, 0, 0, 0}));
  EXPECT_EQ(best.tokens, (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c : {99, 40, 7}) equal.at(r, c) = 3;
  }
  const Buffer peaks = typed(equal, 104);
  best = run_beam_step(peaks, {-1, -1, -1}, {0, 3}, 5);
  EXPECT_EQ(best.rows, (std::vector<uint32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(best.tokens, (std::vector<uint32_t>{7, 40, 99, 7, 40}));
}

TEST_P(DecodeOps, BeamStepTakesNothingFromARowWithNonFiniteLogits) {
  for (double bad : {NAN, INFINITY, -INFINITY}) {
    Matrix values(2, 100, 0.5);
    values.at(0, 33) = bad;
    const Buffer logits = typed(values, 104);
    const Best best = run_beam_step(logits, {-1, -20}, {0, 1, 2}, 2);
    EXPECT_EQ(best.totals[0], -std::numeric_limits<double>::infinity()) << bad;
    EXPECT_NEAR(best.totals[2], -20 - std::log(100), 1e-5);
  }
}

}  // namespace
}  // namespace reigen
