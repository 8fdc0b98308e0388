// The counting under both metrics, against n-grams written out and counted in a map.
#include "eval/ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/hash.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using Symbols = std::vector<uint32_t>;
using Counts = std::map<Symbols, uint32_t>;

std::vector<uint32_t> matches_of(NgramMatcher& matcher, const std::vector<Symbols>& references,
                                 const Symbols& hypothesis, size_t orders) {
  std::vector<uint32_t> matches(orders);
  matcher.clear();
  for (const auto& reference : references) matcher.add_reference(reference);
  matcher.match(hypothesis, matches);
  return matches;
}

Counts count_plainly(const Symbols& symbols, size_t n) {
  Counts counts;
  for (size_t i = 0; i + n <= symbols.size(); ++i) {
    ++counts[Symbols(symbols.begin() + static_cast<ptrdiff_t>(i),
                     symbols.begin() + static_cast<ptrdiff_t>(i + n))];
  }
  return counts;
}

std::vector<uint32_t> matches_plainly(const std::vector<Symbols>& references,
                                      const Symbols& hypothesis, size_t orders) {
  std::vector<uint32_t> matches(orders);
  for (size_t n = 1; n <= orders; ++n) {
    Counts most;
    for (const auto& reference : references) {
      for (const auto& [ngram, count] : count_plainly(reference, n)) {
        most[ngram] = std::max(most[ngram], count);
      }
    }
    for (const auto& [ngram, count] : count_plainly(hypothesis, n)) {
      matches[n - 1] += std::min(count, most[ngram]);
    }
  }
  return matches;
}

Symbols random_symbols(uint64_t seed, size_t length, uint64_t kinds) {
  Symbols symbols;
  for (size_t i = 0; i < length; ++i) {
    symbols.push_back(static_cast<uint32_t>(mix64(seed * 7919 + i) % kinds));
  }
  return symbols;
}

TEST(NgramMatcher, CountsAnNgramAtMostAsOftenAsTheReferenceHasIt) {
  NgramMatcher matcher(2);
  EXPECT_THAT(matches_of(matcher, {{1, 2, 1}}, {1, 1, 1, 2}, 2), ElementsAre(3, 1));
}

TEST(NgramMatcher, UsesTheReferenceWithTheMostMatchesNotTheSum) {
  NgramMatcher matcher(1);
  EXPECT_THAT(matches_of(matcher, {{1, 2}, {1, 1}}, {1, 1, 1, 2}, 1), ElementsAre(3));
}

TEST(NgramMatcher, FindsNothingInEmptyText) {
  NgramMatcher matcher(3);
  EXPECT_THAT(matches_of(matcher, {{}}, {1, 2, 3}, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(matches_of(matcher, {{1, 2, 3}}, {}, 3), ElementsAre(0, 0, 0));
}

TEST(NgramMatcher, AgreesWithPlainCountingAfterItsTableHasGrown) {
  NgramMatcher matcher(6);
  for (uint64_t round = 0; round < 60; ++round) {
    const size_t length = round % 20 == 19 ? 3000 : round;  // 3,000 makes 18,000 n-grams
    std::vector<Symbols> references;
    for (uint64_t r = 0; r < 1 + round % 3; ++r) {
      references.push_back(random_symbols(3 * round + r, length, 2 + round % 5));
    }
    const Symbols hypothesis = random_symbols(1000 + round, length + 2, 2 + round % 5);
    EXPECT_EQ(matches_of(matcher, references, hypothesis, 6),
              matches_plainly(references, hypothesis, 6))
        << round;
  }
}

}  // namespace
}  // namespace reigen
