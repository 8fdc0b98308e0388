// Tables of counts give the same scores as the metrics themselves, and signatures are sacreBLEU's.
#include "eval/scores.h"

#include <gtest/gtest.h>

#include "base/json/json.h"

namespace reigen {
namespace {

const Lines kHypotheses = {"The dog bit the man.", "It wasn't surprising.", ""};
const std::vector<Lines> kReferences = {
    {"The dog bit the man.", "It was not unexpected.", "The man bit him first."},
    {"The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."}};
constexpr ScoreMetric kAll[] = {ScoreMetric::kBleu, ScoreMetric::kChrf, ScoreMetric::kChrfPlusPlus};

TEST(CountTable, HasARowPerSentenceAndTheScoreOfTheCorpus) {
  std::vector<double> scores;
  for (ScoreMetric metric : kAll) {
    CountTable table = count_sentences(metric, kHypotheses, kReferences);
    EXPECT_EQ(table.sentences(), 3u);
    EXPECT_EQ(table.counts.size(), 3 * table.width);
    scores.push_back(score_of(metric, sum_of(table)));
  }
  EXPECT_DOUBLE_EQ(scores[0], corpus_bleu(kHypotheses, kReferences).score);
  EXPECT_DOUBLE_EQ(scores[1], corpus_chrf(kHypotheses, kReferences));
  EXPECT_DOUBLE_EQ(scores[2], corpus_chrf(kHypotheses, kReferences, {.word_order = 2}));
}

TEST(CountTable, HasThePrecisionsOfBleu) {
  CountTable table = count_sentences(ScoreMetric::kBleu, kHypotheses, kReferences);
  EXPECT_EQ(bleu_of(sum_of(table)).text(), corpus_bleu(kHypotheses, kReferences).text());
}

TEST(Signature, IsSacrebleusPlusTheProgram) {
  EXPECT_EQ(signature(ScoreMetric::kBleu, 1, std::nullopt),
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0|by:reigen");
  EXPECT_EQ(signature(ScoreMetric::kChrfPlusPlus, 2, Resampling{.resamples = 500, .seed = 1}),
            "nrefs:2|bs:500|seed:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0|by:reigen");
}

TEST(Signature, BeginsLikeTheFixtures) {
  auto settings = [](const std::string& text) { return text.substr(0, text.find("|version:")); };
  const Json fixture = read_json(REIGEN_TESTS "/eval/fixture.json");
  for (const Json& corpus : fixture["corpora"]) {
    const size_t references = corpus["references"].size();
    for (ScoreMetric metric : kAll) {
      const char* key = metric == ScoreMetric::kBleu   ? "bleu"
                        : metric == ScoreMetric::kChrf ? "chrf"
                                                       : "chrf++";
      EXPECT_EQ(settings(signature(metric, references, std::nullopt)),
                settings(corpus[key]["signature"]));
      if (corpus[key].contains("name")) {
        EXPECT_EQ(metric_name(metric), corpus[key]["name"].get<std::string>());
      }
    }
  }
  const Json& resampled = fixture["significance"];
  EXPECT_EQ(settings(signature(ScoreMetric::kBleu, 1, Resampling{})),
            settings(resampled["BLEU"]["signature"]));
  EXPECT_EQ(settings(signature(ScoreMetric::kChrf, 1, Resampling{})),
            settings(resampled["chrF2"]["signature"]));
}

}  // namespace
}  // namespace reigen
