// Weights of corpora by a temperature.
#include "data/prepare/corpus_weights.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

CorpusFacts corpus(const char* name, const char* to, uint64_t pairs, double weight = 1) {
  CorpusFacts facts;
  facts.name = name;
  facts.to = to;
  facts.lines_kept = pairs;
  facts.weight = weight;
  return facts;
}

double seen(const CorpusFacts& facts) {
  return facts.weight * static_cast<double>(facts.lines_kept);
}

TEST(EvenOut, OneKeepsTheWeights) {
  std::vector<CorpusFacts> corpora = {corpus("a", "", 1000, 0.5), corpus("b", "", 10, 3)};
  even_out(corpora, 1);
  EXPECT_EQ(corpora[0].weight, 0.5);
  EXPECT_EQ(corpora[1].weight, 3);
}

TEST(EvenOut, TheLargestIsSeenAsBeforeAndOthersByTheRoot) {
  std::vector<CorpusFacts> corpora = {corpus("a", "", 10'000), corpus("b", "", 400),
                                      corpus("empty", "", 0)};
  even_out(corpora, 2);
  EXPECT_EQ(corpora[0].weight, 1);
  EXPECT_NEAR(seen(corpora[1]) / seen(corpora[0]), 20.0 / 100, 1e-9);
  EXPECT_EQ(corpora[2].weight, 1);
}

TEST(EvenOut, CorporaOfALanguageCountTogetherAndKeepTheirProportions) {
  std::vector<CorpusFacts> corpora = {corpus("a", "de", 9'000), corpus("b", "de", 500, 2),
                                      corpus("c", "fr", 60), corpus("d", "fr", 20, 2)};
  even_out(corpora, 2);
  EXPECT_EQ(corpora[1].weight, 2 * corpora[0].weight);
  EXPECT_EQ(corpora[3].weight, 2 * corpora[2].weight);
  EXPECT_NEAR((seen(corpora[2]) + seen(corpora[3])) / (seen(corpora[0]) + seen(corpora[1])),
              10.0 / 100, 1e-9);
}

TEST(EvenOut, NoWeightIsAboveTheLimitOfAManifest) {
  std::vector<CorpusFacts> corpora = {corpus("a", "", 10'000'000), corpus("b", "", 1)};
  even_out(corpora, 1000);
  EXPECT_EQ(corpora[1].weight, 1000);
}

}  // namespace
}  // namespace reigen
