// chrF by hand, and compared with sacreBLEU's own figures for awkward text (make_fixture.py wrote
// them).
#include "eval/chrf.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "eval/sacrebleu_figures.h"

namespace reigen {
namespace {

constexpr ChrfOptions kPlusPlus = {.word_order = 2};

ChrfCounts chrf_counts(const std::string& hypothesis, const std::vector<std::string>& references,
                       const ChrfOptions& options = {}) {
  std::vector<std::string_view> views(references.begin(), references.end());
  return ChrfCounter(options).count(hypothesis, views);
}

TEST(ChrfCounter, CountsCharactersWithoutWhiteSpace) {
  ChrfCounts counts = chrf_counts("a bc", {"ab d"});
  ASSERT_EQ(counts.size(), 6u);
  EXPECT_EQ(counts[0], (ChrfOrder{3, 3, 2}));
  EXPECT_EQ(counts[1], (ChrfOrder{2, 2, 1}));
  EXPECT_EQ(counts[2], (ChrfOrder{1, 1, 0}));
  EXPECT_EQ(counts[3], (ChrfOrder{0, 0, 0}));
}

TEST(ChrfCounter, CountsCodePointsNotBytes) {
  EXPECT_EQ(chrf_counts("\u00e9\U0001f600", {"\u00e9"})[0], (ChrfOrder{2, 1, 1}));
  EXPECT_EQ(chrf_counts("e\u0301", {"\u00e9"})[0], (ChrfOrder{2, 1, 0}));
}

TEST(ChrfCounter, LeavesOutLengthsTheReferenceIsTooShortFor) {
  EXPECT_EQ(chrf_counts("abcd", {"ab"})[2], (ChrfOrder{0, 0, 0}));
  EXPECT_EQ(chrf_counts("ab", {"abcd"})[2], (ChrfOrder{0, 2, 0}));
  EXPECT_EQ(chrf_counts("abcd", {""})[0], (ChrfOrder{0, 0, 0}));
}

TEST(ChrfCounter, CountsWordsForPlusPlus) {
  ChrfCounts counts = chrf_counts("to be, or not", {"to be or not."}, kPlusPlus);
  ASSERT_EQ(counts.size(), 8u);
  EXPECT_EQ(counts[6], (ChrfOrder{5, 5, 4}));
  EXPECT_EQ(counts[7], (ChrfOrder{4, 4, 2}));
}

TEST(ChrfCounter, UsesTheBestReference) {
  EXPECT_EQ(chrf_counts("abc", {"xyz", "abd", "xyc"}), chrf_counts("abc", {"abd"}));
}

TEST(Chrf, WeighsRecallTwiceAsMuchAsPrecision) {
  // Of one-grams 2 of 4 are right and 2 of 3 found; nothing longer matches. Averaged over three
  // lengths that both sides have.
  const double precision = 2.0 / 4 / 3;
  const double recall = 2.0 / 3 / 3;
  expect_close(corpus_chrf({"axby"}, {{"acb"}}),
               100 * 5 * precision * recall / (4 * precision + recall));
}

TEST(Chrf, IsAHundredForEqualTextAndZeroForNoOverlap) {
  expect_close(corpus_chrf({"The same."}, {{"The same."}}), 100);
  EXPECT_EQ(corpus_chrf({"abc"}, {{"xyz"}}), 0);
  EXPECT_EQ(corpus_chrf({""}, {{"xyz"}}), 0);
  EXPECT_EQ(corpus_chrf({"abc"}, {{""}}), 0);
}

TEST(Chrf, RefusesACorpusThatDoesNotMatchLineByLine) {
  EXPECT_THROW(corpus_chrf({"a", "b"}, {{"a"}}), DataError);
  EXPECT_THROW(corpus_chrf({}, {{}}), DataError);
}

TEST(Chrf, NamesItselfAndItsSettings) {
  EXPECT_EQ(chrf_name(), "chrF2");
  EXPECT_EQ(chrf_name(kPlusPlus), "chrF2++");
  EXPECT_EQ(chrf_settings(), "case:mixed|eff:yes|nc:6|nw:0|space:no");
  EXPECT_EQ(chrf_settings(kPlusPlus), "case:mixed|eff:yes|nc:6|nw:2|space:no");
}

TEST(ChrfFixture, MatchesCorpusScores) {
  EXPECT_GE(sacrebleu_corpora().size(), 20u);
  for (const Json& corpus : sacrebleu_corpora()) {
    SCOPED_TRACE(corpus["name"].get<std::string>());
    const auto hypotheses = corpus["hypotheses"].get<Lines>();
    const auto references = corpus["references"].get<std::vector<Lines>>();
    expect_close(corpus_chrf(hypotheses, references), corpus["chrf"]["score"]);
    expect_close(corpus_chrf(hypotheses, references, kPlusPlus), corpus["chrf++"]["score"]);
  }
}

TEST(ChrfFixture, MatchesSentenceScores) {
  size_t sentences = 0;
  for (const Json& corpus : sacrebleu_corpora()) {
    for (size_t i = 0; i < corpus["hypotheses"].size(); ++i, ++sentences) {
      SCOPED_TRACE(corpus["hypotheses"][i].get<std::string>());
      std::vector<std::string> references;
      for (const Json& set : corpus["references"]) references.push_back(set[i]);
      const std::string hypothesis = corpus["hypotheses"][i];
      expect_close(chrf_score(chrf_counts(hypothesis, references)), corpus["sentences"]["chrf"][i]);
      expect_close(chrf_score(chrf_counts(hypothesis, references, kPlusPlus), kPlusPlus),
                   corpus["sentences"]["chrf++"][i]);
    }
  }
  EXPECT_GT(sentences, 50u);
}

}  // namespace
}  // namespace reigen
