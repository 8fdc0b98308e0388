// BLEU by hand, and compared with sacreBLEU's own figures for awkward text (make_fixture.py wrote
// them).
#include "eval/bleu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "eval/sacrebleu_figures.h"
#include "eval/segment.h"

namespace reigen {
namespace {

BleuCounts bleu_counts(const std::string& hypothesis, const std::vector<std::string>& references) {
  std::vector<std::string_view> views(references.begin(), references.end());
  return BleuCounter().count(hypothesis, views);
}

TEST(BleuCounter, ClipsMatchesAtTheReference) {
  BleuCounts counts = bleu_counts("the the the the the the the", {"the cat is on the mat"});
  EXPECT_EQ(counts.hypothesis_length, 7u);
  EXPECT_EQ(counts.reference_length, 6u);
  EXPECT_EQ(counts.correct, (std::array<uint64_t, 4>{2, 0, 0, 0}));
  EXPECT_EQ(counts.total, (std::array<uint64_t, 4>{7, 6, 5, 4}));
}

TEST(BleuCounter, UsesTheNearestReferenceLengthAndTheShorterOnATie) {
  EXPECT_EQ(bleu_counts("a b c d", {"a", "a b c d e f", "a b c d e"}).reference_length, 5u);
  EXPECT_EQ(bleu_counts("a b c d", {"a b c d e", "a b c"}).reference_length, 3u);
}

TEST(BleuCounter, DoesNotDependOnEarlierSentences) {
  BleuCounter counter;
  const std::string_view reference = "one two three four";
  const BleuCounts first = counter.count("one two four", {&reference, 1});
  const std::string_view other = "quite another text altogether, with one word in common";
  counter.count("one other text", {&other, 1});
  EXPECT_EQ(counter.count("one two four", {&reference, 1}), first);
}

TEST(Bleu, IsTheGeometricMeanOfPrecisionsTimesTheBrevityPenalty) {
  // 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples; one word too short.
  BleuScore score = corpus_bleu({"a b c d x e"}, {{"a b c d e f g"}});
  EXPECT_DOUBLE_EQ(score.precisions[0], 100.0 * 5 / 6);
  EXPECT_DOUBLE_EQ(score.precisions[1], 100.0 * 3 / 5);
  EXPECT_DOUBLE_EQ(score.precisions[2], 100.0 * 2 / 4);
  EXPECT_DOUBLE_EQ(score.precisions[3], 100.0 * 1 / 3);
  EXPECT_DOUBLE_EQ(score.brevity_penalty, std::exp(1 - 7.0 / 6));
  expect_close(score.score,
               100 * std::exp(1 - 7.0 / 6) * std::pow(5.0 / 6 * 3 / 5 * 2 / 4 * 1 / 3, 0.25));
}

TEST(Bleu, SumsCountsOverTheCorpusRatherThanScores) {
  const BleuCounts both = bleu_counts("a b c d e", {"a b c d e"}) += bleu_counts("a x", {"a b"});
  expect_close(corpus_bleu({"a b c d e", "a x"}, {{"a b c d e", "a b"}}).score,
               bleu_score(both).score);
  EXPECT_EQ(both.correct, (std::array<uint64_t, 4>{6, 4, 3, 2}));
  EXPECT_EQ(both.total, (std::array<uint64_t, 4>{7, 5, 3, 2}));
}

TEST(Bleu, SmoothsOrdersWithoutAMatch) {
  BleuCounts counts = {.hypothesis_length = 10, .reference_length = 10};
  counts.correct = {5, 2, 0, 0};
  counts.total = {10, 9, 8, 7};
  using enum BleuSmoothing;
  auto precisions = [&](const BleuOptions& options) {
    return bleu_score(counts, options).precisions;
  };
  EXPECT_DOUBLE_EQ(precisions({kExp})[2], 100.0 / 2 / 8);
  EXPECT_DOUBLE_EQ(precisions({kExp})[3], 100.0 / 4 / 7);
  EXPECT_DOUBLE_EQ(precisions({kFloor})[2], 100 * 0.1 / 8);
  EXPECT_DOUBLE_EQ(precisions({kFloor, 0.5})[3], 100 * 0.5 / 7);
  EXPECT_DOUBLE_EQ(precisions({kAddK})[0], 50.0);
  EXPECT_DOUBLE_EQ(precisions({kAddK})[1], 100.0 * 3 / 10);
  EXPECT_DOUBLE_EQ(precisions({kAddK, 2.0})[2], 100.0 * 2 / 10);
  EXPECT_EQ(bleu_score(counts, {kNone}).score, 0);
}

TEST(Bleu, IsZeroWithoutAnyMatch) {
  BleuScore score = corpus_bleu({"a b c d"}, {{"e f g h"}});
  EXPECT_EQ(score.score, 0);
  EXPECT_EQ(score.precisions[0], 0);
  EXPECT_EQ(score.brevity_penalty, 1);
}

TEST(Bleu, OfShortSentencesNeedsTheEffectiveOrder) {
  const BleuCounts counts = bleu_counts("good morning", {"good morning"});
  EXPECT_EQ(bleu_score(counts).score, 0);
  expect_close(bleu_score(counts, {.effective_order = true}).score, 100);
}

TEST(Bleu, RefusesACorpusThatDoesNotMatchLineByLine) {
  EXPECT_THROW(corpus_bleu({"a", "b"}, {{"a"}}), DataError);
  EXPECT_THROW(corpus_bleu({"a"}, {{"a"}, {"a", "b"}}), DataError);
  EXPECT_THROW(corpus_bleu({"a"}, {}), DataError);
  EXPECT_THROW(corpus_bleu({}, {{}}), DataError);
}

TEST(Bleu, PrintsLikeSacrebleu) {
  BleuScore score = {.score = 39.3571,
                     .precisions = {70.1, 45.64, 32.06, 22.5},
                     .brevity_penalty = 1,
                     .hypothesis_length = 1002,
                     .reference_length = 1000};
  EXPECT_EQ(score.text(),
            "BLEU = 39.36 70.1/45.6/32.1/22.5 (BP = 1.000 ratio = 1.002 hyp_len = 1002 "
            "ref_len = 1000)");
}

TEST(Bleu, NamesItsSettings) {
  EXPECT_EQ(bleu_settings(), "case:mixed|eff:no|tok:13a|smooth:exp");
  EXPECT_EQ(bleu_settings({.smoothing = BleuSmoothing::kFloor, .effective_order = true}),
            "case:mixed|eff:yes|tok:13a|smooth:floor[0.10]");
  EXPECT_EQ(bleu_settings({.smoothing = BleuSmoothing::kAddK, .value = 2}),
            "case:mixed|eff:no|tok:13a|smooth:add-k[2.00]");
}

TEST(BleuFixture, MatchesTokens) {
  size_t lines = 0;
  auto check = [&](const Json& texts, const Json& tokens) {
    ASSERT_EQ(texts.size(), tokens.size());
    for (size_t i = 0; i < texts.size(); ++i, ++lines) {
      EXPECT_EQ(tokenize_13a(texts[i].get<std::string>()), tokens[i].get<std::string>());
    }
  };
  for (const Json& corpus : sacrebleu_corpora()) {
    SCOPED_TRACE(corpus["name"].get<std::string>());
    check(corpus["hypotheses"], corpus["tokens"]["hypotheses"]);
    for (size_t r = 0; r < corpus["references"].size(); ++r) {
      check(corpus["references"][r], corpus["tokens"]["references"][r]);
    }
  }
  EXPECT_GT(lines, 100u);
}

TEST(BleuFixture, MatchesCorpusScores) {
  EXPECT_GE(sacrebleu_corpora().size(), 20u);
  for (const Json& corpus : sacrebleu_corpora()) {
    SCOPED_TRACE(corpus["name"].get<std::string>());
    const Json& theirs = corpus["bleu"];
    const auto hypotheses = corpus["hypotheses"].get<Lines>();
    const auto references = corpus["references"].get<std::vector<Lines>>();
    BleuScore ours = corpus_bleu(hypotheses, references);
    expect_close(ours.score, theirs["score"]);
    for (size_t n = 0; n < kBleuOrder; ++n) {
      expect_close(ours.precisions[n], theirs["precisions"][n]);
    }
    expect_close(ours.brevity_penalty, theirs["brevity_penalty"]);
    EXPECT_EQ(ours.hypothesis_length, theirs["hypothesis_length"].get<uint64_t>());
    EXPECT_EQ(ours.reference_length, theirs["reference_length"].get<uint64_t>());
    EXPECT_EQ(ours.text(), theirs["text"].get<std::string>());

    using enum BleuSmoothing;
    const Json& smoothed = corpus["smoothed"];
    expect_close(corpus_bleu(hypotheses, references, {kNone}).score, smoothed["none"]);
    expect_close(corpus_bleu(hypotheses, references, {kFloor}).score, smoothed["floor"]);
    expect_close(corpus_bleu(hypotheses, references, {kAddK}).score, smoothed["add-k"]);
  }
}

TEST(BleuFixture, MatchesSentenceScores) {
  size_t sentences = 0;
  for (const Json& corpus : sacrebleu_corpora()) {
    for (size_t i = 0; i < corpus["hypotheses"].size(); ++i, ++sentences) {
      SCOPED_TRACE(corpus["hypotheses"][i].get<std::string>());
      std::vector<std::string> references;
      for (const Json& set : corpus["references"]) references.push_back(set[i]);
      BleuCounts counts = bleu_counts(corpus["hypotheses"][i], references);
      expect_close(bleu_score(counts, {.effective_order = true}).score,
                   corpus["sentences"]["bleu"][i]);
    }
  }
  EXPECT_GT(sentences, 50u);
}

}  // namespace
}  // namespace reigen
