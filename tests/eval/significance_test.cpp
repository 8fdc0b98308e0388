// Intervals and comparisons: by hand where possible, statistically where sacreBLEU's resamples
// differ.
#include "eval/significance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"

namespace reigen {
namespace {

// Sentence i of 40 has its first i % 8 words right.
CountTable uneven_table(size_t sentences = 40) {
  Lines hypotheses;
  Lines references;
  for (size_t i = 0; i < sentences; ++i) {
    std::string hypothesis;
    std::string reference;
    for (size_t w = 0; w < 8; ++w) {
      reference += format("w{} ", w);
      hypothesis += w < i % 8 ? format("w{} ", w) : "x ";
    }
    hypotheses.push_back(hypothesis);
    references.push_back(reference);
  }
  return count_sentences(ScoreMetric::kBleu, hypotheses, {references});
}

std::vector<double> scores_of(const CountTable& table, const Resampling& resampling) {
  return resample_scores({&table, 1}, resampling)[0];
}

TEST(ResampleScores, DependOnlyOnTheSeed) {
  const CountTable table = uneven_table();
  const auto once = scores_of(table, {.resamples = 50, .seed = 1});
  EXPECT_EQ(once, scores_of(table, {.resamples = 50, .seed = 1}));
  EXPECT_NE(once, scores_of(table, {.resamples = 50, .seed = 2}));
  // More resamples begin with the same ones.
  auto more = scores_of(table, {.resamples = 80, .seed = 1});
  ASSERT_EQ(more.size(), 80u);
  more.resize(50);
  EXPECT_EQ(once, more);
}

TEST(ResampleScores, DrawTheSameSentencesForEveryTable) {
  const std::vector<CountTable> twice = {uneven_table(), uneven_table()};
  auto scores = resample_scores(twice, {.resamples = 20});
  EXPECT_EQ(scores[0], scores[1]);
}

TEST(ResampleScores, DrawEachSentenceEquallyOften) {
  // Every sentence is one word; sentence i of 50 is right or not, so a resample's score (of
  // characters) shows how many right ones were drawn.
  Lines hypotheses;
  Lines references(50, "a");
  for (int i = 0; i < 50; ++i) hypotheses.push_back(i < 10 ? "a" : "b");
  for (int shift = 0; shift < 5; ++shift) {
    CountTable table = count_sentences(ScoreMetric::kChrf, hypotheses, {references});
    auto scores = scores_of(table, {.resamples = 4000});
    double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / 4000;
    double square = 0;
    for (double s : scores) square += (s - mean) * (s - mean);
    // Binomial: 20 of 100, standard deviation sqrt(0.2 * 0.8 / 50) = 5.66.
    EXPECT_NEAR(mean, 20, 0.5);
    EXPECT_NEAR(std::sqrt(square / 4000), 5.657, 0.3);
    std::rotate(hypotheses.begin(), hypotheses.begin() + 7, hypotheses.end());
  }
}

TEST(ResampleScores, OfOneSentenceAreItsScore) {
  CountTable table = count_sentences(ScoreMetric::kChrf, {"abc"}, {{"abd"}});
  const double score = score_of(ScoreMetric::kChrf, sum_of(table));
  const Interval interval = interval_of(scores_of(table, {.resamples = 100}));
  EXPECT_DOUBLE_EQ(interval.low, score);
  EXPECT_DOUBLE_EQ(interval.high, score);
}

TEST(ResampleScores, RefuseTablesOfUnequalLength) {
  const std::vector<CountTable> tables = {uneven_table(40), uneven_table(39)};
  EXPECT_THROW(resample_scores(tables, {}), DataError);
}

TEST(Interval, LeavesAFortiethAtEitherEnd) {
  std::vector<double> scores(1000);
  std::iota(scores.rbegin(), scores.rend(), 0.0);
  const Interval interval = interval_of(scores);
  EXPECT_EQ(interval.low, 25);
  EXPECT_EQ(interval.high, 974);
  EXPECT_DOUBLE_EQ(interval.mean, 499.5);
  EXPECT_DOUBLE_EQ(interval.half_width(), 474.5);
}

TEST(Interval, NarrowsWithMoreSentences) {
  const Interval few = interval_of(scores_of(uneven_table(40), {}));
  const Interval many = interval_of(scores_of(uneven_table(40 * 16), {}));
  EXPECT_NEAR(few.half_width() / many.half_width(), 4, 0.8);
}

TEST(Comparison, CountsResamplesBeyondTheObservedDifference) {
  // Absolute differences 1, 3, 2, 2, 7 with mean 3; less the mean -2, 0, -1, -1, 4; one is above 2.
  const Comparison c = compare(12, 10, {11, 13, 12, 8, 17}, {10, 10, 10, 10, 10});
  EXPECT_DOUBLE_EQ(c.difference, 2);
  EXPECT_DOUBLE_EQ(c.p_value, 2.0 / 6);
  EXPECT_DOUBLE_EQ(c.share_better, 0.8);
  EXPECT_DOUBLE_EQ(c.interval.mean, 2.2);
  EXPECT_DOUBLE_EQ(c.interval.low, -2);
  EXPECT_DOUBLE_EQ(c.interval.high, 7);
}

TEST(Comparison, OfASystemWithItselfIsNotSignificant) {
  const std::vector<double> scores = {10, 11, 12};
  const Comparison c = compare(11, 11, scores, scores);
  EXPECT_EQ(c.difference, 0);
  EXPECT_EQ(c.p_value, 1);
  EXPECT_EQ(c.share_better, 0);
}

TEST(SignificanceFixture, AgreesAsTwoSeedsOfSacrebleuWould) {
  const Json all = read_json(REIGEN_TESTS "/eval/fixture.json");
  const Json& entry = all["significance"];
  const std::vector<Lines> references = {entry["references"].get<Lines>()};
  const Resampling resampling = {.resamples = entry["resamples"].get<int64_t>()};
  for (ScoreMetric metric : {ScoreMetric::kBleu, ScoreMetric::kChrf}) {
    SCOPED_TRACE(metric_name(metric));
    const Json& theirs = entry[metric_name(metric)];
    std::vector<CountTable> tables;
    for (const char* system : {"better", "fair"}) {
      tables.push_back(count_sentences(metric, entry[system].get<Lines>(), references));
    }
    auto resampled = resample_scores(tables, resampling);
    double scores[2];
    for (size_t s = 0; s < 2; ++s) {
      const Json& system = theirs[s == 0 ? "better" : "fair"];
      scores[s] = score_of(metric, sum_of(tables[s]));
      EXPECT_NEAR(scores[s], system["score"].get<double>(), 1e-9 * scores[s]);
      // A mean of 1,000 is good to 1/60 of the interval's half-width, each of its ends to 1/20.
      const double ci = system["ci"];
      const Interval interval = interval_of(resampled[s]);
      EXPECT_NEAR(interval.mean, system["mean"].get<double>(), 0.1 * ci);
      EXPECT_NEAR(interval.half_width(), ci, 0.2 * ci);
    }
    const double p = compare(scores[0], scores[1], resampled[0], resampled[1]).p_value;
    EXPECT_NEAR(p, theirs["p_value"].get<double>(), 0.025);
  }
}

}  // namespace
}  // namespace reigen
