// Evaluation on a held-out split: the model's loss, and scores of decoded text.
#include "eval/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/file/files.h"
#include "train/small_run.h"

namespace reigen {
namespace {

using ::testing::HasSubstr;

class ValidationTest : public ::testing::Test {
 protected:
  ValidationTest() : set(*small.data.valid), parameters(first_state(small.model, 4).parameters) {}

  PairsLoss loss(uint64_t micro_tokens) {
    return loss_of(device, small.model, parameters, set.pairs, small.data.vocabulary.bos(),
                   micro_tokens);
  }
  EvaluationRecord record(const ValidationPlan& plan) {
    return validate(device, small.model, parameters, set, small.data.vocabulary, plan);
  }

  SmallRun small;
  ValidationSet set;
  std::vector<float> parameters;
  Device device = Device::cpu(2);
};

TEST_F(ValidationTest, OpensEveryPairWithItsText) {
  EXPECT_EQ(set.pairs.sources.size(), 20u);
  EXPECT_EQ(set.pairs.targets.size(), 20u);
  EXPECT_EQ(set.sources.size(), 20u);
  EXPECT_EQ(set.references.size(), 20u);
  EXPECT_THAT(set.references[7], HasSubstr("Nummer 7"));
  const Vocabulary& vocabulary = small.data.vocabulary;
  for (size_t i = 0; i < 20; ++i) {
    std::vector<uint32_t> ids = set.pairs.targets[i];
    EXPECT_EQ(ids.back(), vocabulary.eos());
    ids.pop_back();
    EXPECT_EQ(vocabulary.decode(ids), set.references[i]);
  }
}

TEST_F(ValidationTest, RefusesTextThatDoesNotMatchThePairs) {
  for (const char* name : {"valid.en", "valid.de"}) {
    const std::string path = small.options.data + "/" + name;
    const std::string whole = read_file(path);
    write_text(path, whole + "one more\n");
    try {
      open_heldout(small.options.data, small.data.manifest, "valid", small.data.vocabulary.size());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), HasSubstr("valid has 20 pairs but its text"));
      EXPECT_THAT(e.what(), HasSubstr("21"));
    }
    write_text(path, whole);
  }
  EXPECT_EQ(
      open_heldout(small.options.data, small.data.manifest, "valid", small.data.vocabulary.size())
          .sources,
      set.sources);
}

TEST_F(ValidationTest, LossIsThatOfTheModelOnTheWholeSet) {
  PackedBatch batch;
  for (size_t i = 0; i < set.pairs.sources.size(); ++i) {
    const auto& source = set.pairs.sources[i];
    const auto& target = set.pairs.targets[i];
    batch.source.insert(batch.source.end(), source.begin(), source.end());
    batch.target_in.push_back(small.data.vocabulary.bos());
    batch.target_in.insert(batch.target_in.end(), target.begin(), target.end() - 1);
    batch.target_out.insert(batch.target_out.end(), target.begin(), target.end());
    batch.source_offsets.push_back(static_cast<uint32_t>(batch.source.size()));
    batch.target_offsets.push_back(static_cast<uint32_t>(batch.target_out.size()));
    batch.first_source_token.push_back(0);
    batch.first_target_token.push_back(0);
  }
  Arena arena;
  const double nll = small.model.evaluate(device, batch, parameters, 0, arena).nll;
  const auto tokens = static_cast<double>(batch.target_out.size());
  for (uint64_t micro_tokens : {0, 1, 57, 200, 1'000'000}) {  // any size of micro-batch
    const PairsLoss found = loss(micro_tokens);
    EXPECT_EQ(found.tokens, batch.target_out.size()) << micro_tokens;
    EXPECT_NEAR(found.nll, nll / tokens, 1e-6) << micro_tokens;
  }
}

TEST_F(ValidationTest, LossOfNoPairsIsZero) {
  set.pairs = {};
  EXPECT_EQ(loss(100).tokens, 0u);
  EXPECT_EQ(loss(100).nll, 0);
}

TEST_F(ValidationTest, TranslatesAsManyAsAskedFor) {
  auto translated = [&](size_t count) {
    return translate_pairs(device, small.model, parameters, set.pairs, count, small.data.vocabulary,
                           {.beam = 2})
        .lines;
  };
  const Lines all = translated(0);
  EXPECT_EQ(all.size(), 20u);
  EXPECT_EQ(translated(20), all);
  EXPECT_EQ(translated(1000), all);
  const Lines some = translated(5);
  EXPECT_EQ(some, Lines(all.begin(), all.begin() + 5));
}

TEST_F(ValidationTest, RecordsLossAndScoresOfTheTextThatWasDecoded) {
  ValidationPlan plan{.sentences = 6, .samples = 0, .micro_tokens = 200, .options = {.beam = 1}};
  const EvaluationRecord found = record(plan);
  EXPECT_EQ(found.nll, loss(200).nll);
  EXPECT_EQ(found.perplexity, std::exp(found.nll));
  EXPECT_EQ(found.tokens, loss(200).tokens);
  EXPECT_EQ(found.sentences, 20u);
  ASSERT_TRUE(found.bleu && found.chrf);
  EXPECT_LT(*found.bleu, 5);  // random weights know no German
  // Decoded text scores 100 against itself.
  const Lines decoded = translate_pairs(device, small.model, parameters, set.pairs, 6,
                                        small.data.vocabulary, plan.options)
                            .lines;
  std::copy(decoded.begin(), decoded.end(), set.references.begin());
  EXPECT_NEAR(*record(plan).chrf, 100, 1e-9);
}

TEST_F(ValidationTest, ProbesTheLossWithSourcesOfOtherPairs) {
  ValidationPlan plan{.decode = false, .micro_tokens = 200};
  EXPECT_FALSE(record(plan).rotated_nll.has_value());
  plan.probe = true;
  const EvaluationRecord found = record(plan);
  EXPECT_EQ(found.probe_nll, found.nll);  // of the whole set, which has 20 pairs
  set.pairs.direction.assign(20, 0);
  set.pairs.direction[3] = set.pairs.direction[7] = 1;
  set.pairs.directions = 2;
  set.directions = {"en-de", "en-fr"};
  const EvaluationRecord apart = record(plan);
  std::rotate(set.pairs.sources.begin(), set.pairs.sources.begin() + 1, set.pairs.sources.end());
  EXPECT_NEAR(*found.rotated_nll, loss(200).nll, 1e-6);
  EXPECT_NE(*found.rotated_nll, found.nll);
  // Sources stay within their direction: 2 and 4 follow each other, as 3 and 7 do.
  std::rotate(set.pairs.sources.rbegin(), set.pairs.sources.rbegin() + 1, set.pairs.sources.rend());
  auto& sources = set.pairs.sources;
  const auto before = sources;
  for (size_t i = 0; i < 20; ++i) {
    size_t next = (i + 1) % 20;
    if (i == 2 || i == 6) next = i + 2;
    if (i == 3) next = 7;
    if (i == 7) next = 3;
    sources[i] = before[next];
  }
  EXPECT_NEAR(*apart.rotated_nll, loss(200).nll, 1e-6);
}

TEST_F(ValidationTest, PassesTheTranslationsOn) {
  ValidationPlan plan{.sentences = 6, .samples = 0, .micro_tokens = 200, .options = {.beam = 2}};
  size_t calls = 0;
  plan.more_scores = [&](const ValidationSet&, const TranslatedPairs& translated,
                         EvaluationRecord& record) {
    ++calls;
    EXPECT_EQ(translated.lines.size(), 6u);
    ASSERT_EQ(translated.log_probabilities.size(), 6u);
    for (const double value : translated.log_probabilities) EXPECT_LT(value, 0);
    record.metrics = {{"lines", 6}};
  };
  EXPECT_EQ(record(plan).metrics, (Spans{{"lines", 6}}));
  EXPECT_EQ(calls, 1u);
}

TEST_F(ValidationTest, ScoresEachDirectionByItself) {
  set.directions = {"en-de", "en-fr"};
  set.pairs.directions = 2;
  for (size_t i = 0; i < 20; ++i) set.pairs.direction.push_back(i < 6 ? 1 : 0);
  ValidationPlan plan{.sentences = 18, .samples = 0, .micro_tokens = 200, .options = {.beam = 1}};
  const EvaluationRecord found = record(plan);
  ASSERT_EQ(found.directions.size(), 2u);
  for (size_t d = 0; d < 2; ++d) {
    const DirectionScores& direction = found.directions[d];
    EXPECT_EQ(direction.name, set.directions[d]);
    EncodedPairs own;
    const auto [first, last] = d == 0 ? std::pair{6, 20} : std::pair{0, 6};
    own.sources = {set.pairs.sources.begin() + first, set.pairs.sources.begin() + last};
    own.targets = {set.pairs.targets.begin() + first, set.pairs.targets.begin() + last};
    const PairsLoss alone =
        loss_of(device, small.model, parameters, own, small.data.vocabulary.bos(), 200);
    EXPECT_NEAR(direction.nll, alone.nll, 1e-5);
    EXPECT_EQ(direction.tokens, alone.tokens);
    ASSERT_TRUE(direction.bleu && direction.chrf);
  }
  EXPECT_EQ(found.directions[0].tokens + found.directions[1].tokens, found.tokens);
  // The decoded lines of the second direction score 100 against themselves.
  const Lines decoded = translate_pairs(device, small.model, parameters, set.pairs, 18,
                                        small.data.vocabulary, plan.options)
                            .lines;
  std::copy(decoded.begin(), decoded.begin() + 6, set.references.begin());
  EXPECT_NEAR(*record(plan).directions[1].chrf, 100, 1e-9);
  EXPECT_LT(*record(plan).directions[0].chrf, 100);
}

TEST_F(ValidationTest, DirectionsTakeTurns) {
  set.directions = {"en-de", "en-fr"};
  set.pairs.directions = 2;
  for (size_t i = 0; i < 20; ++i) set.pairs.direction.push_back(i < 15 ? 0 : 1);
  const ValidationSet sorted = in_turn(set);
  EXPECT_EQ(sorted.directions, set.directions);
  for (size_t i = 0; i < 20; ++i) {
    const size_t before = i >= 10 ? i - 5 : (i % 2 == 0 ? i / 2 : 15 + i / 2);
    EXPECT_EQ(sorted.pairs.direction[i], set.pairs.direction[before]);
    EXPECT_EQ(sorted.pairs.sources[i], set.pairs.sources[before]);
    EXPECT_EQ(sorted.pairs.targets[i], set.pairs.targets[before]);
    EXPECT_EQ(sorted.sources[i], set.sources[before]);
    EXPECT_EQ(sorted.references[i], set.references[before]);
  }
  ValidationSet one = set;
  one.directions.clear();
  one.pairs.direction.clear();
  EXPECT_EQ(in_turn(one).sources, set.sources);
}

TEST(ChrfOfSentences, IsThatOfEachSentence) {
  const std::vector<double> scores = chrf_of_sentences({"the same", "other"}, {"the same", "xyz"});
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_NEAR(scores[0], 100, 1e-9);
  EXPECT_NEAR(scores[1], 0, 1e-9);
}

TEST_F(ValidationTest, DecodesNothingWithoutBleu) {
  const EvaluationRecord found = record({.decode = false, .samples = 3, .micro_tokens = 200});
  EXPECT_FALSE(found.bleu);
  EXPECT_FALSE(found.chrf);
  EXPECT_TRUE(found.samples.empty());
  EXPECT_EQ(found.nll, loss(200).nll);
}

std::vector<std::string> sources_of(const EvaluationRecord& record) {
  std::vector<std::string> sources;
  for (const auto& sample : record.samples) sources.push_back(sample.source);
  return sources;
}

TEST_F(ValidationTest, ShowsSamplesSpreadEvenlyEachOfADifferentSentence) {
  ValidationPlan plan{.sentences = 10, .samples = 3, .micro_tokens = 200, .options = {.beam = 1}};
  const EvaluationRecord found = record(plan);
  EXPECT_EQ(sources_of(found), (Lines{set.sources[0], set.sources[3], set.sources[6]}));
  for (const auto& sample : found.samples) {
    const auto at = static_cast<size_t>(
        std::find(set.sources.begin(), set.sources.end(), sample.source) - set.sources.begin());
    EXPECT_EQ(sample.reference, set.references[at]);
  }
  plan.sentences = 2;  // fewer sentences than samples: each once
  EXPECT_EQ(sources_of(record(plan)), (Lines{set.sources[0], set.sources[1]}));
}

}  // namespace
}  // namespace reigen
