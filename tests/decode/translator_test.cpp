// Text through a translator: any input line gives exactly one output line.
#include "decode/translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/fragments.h"
#include "decode/small_translator.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Translator, TranslatesALineTheSameAloneAndInABatch) {
  SmallTranslator small(small_vocabulary());
  const std::vector<std::string> lines = {"the number 12 is followed.", "", "Zahl", "by number 7",
                                          "the"};
  const std::vector<std::string> together = small.best(lines);
  ASSERT_EQ(together.size(), lines.size());
  for (size_t l = 0; l < lines.size(); ++l) EXPECT_EQ(together[l], small.best_of(lines[l]));
  EXPECT_FALSE(together[0].empty());
  EXPECT_EQ(small.translator.counts().lines, 10u);
}

TEST(Translator, TranslatesAnEmptyLineToAnEmptyLine) {
  SmallTranslator small(small_vocabulary());
  EXPECT_THAT(small.best({"", "   ", "\t", "\u3000\u00A0"}), ElementsAre("", "", "", ""));
  EXPECT_TRUE(small.best({}).empty());
  SmallTranslator unsqueezed(small_vocabulary(), 1, {.beam = 2}, {"en", "de", false, false});
  EXPECT_THAT(unsqueezed.best({"", "   ", "\u3000"}), ElementsAre("", "", ""));
}

TEST(Translator, NormalisesAsTrainingDid) {
  SmallTranslator small(small_vocabulary());
  EXPECT_EQ(small.best_of("  the   number\t１２ "), small.best_of("the number 12"));
  EXPECT_EQ(small.best_of("größer"), small.best_of("gro\u0308ßer"));  // o and a combining mark: ö
}

TEST(Translator, RepairsAndCountsInvalidUtf8) {
  SmallTranslator small(small_vocabulary());
  EXPECT_EQ(small.best_of("the \xFF number"), small.best_of("the \uFFFD number"));
  EXPECT_EQ(small.translator.counts().repaired, 1u);
  for (const char* odd : {"\xC3", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC0\x80", "a\xE2\x80"}) {
    small.best_of(odd);
  }
  EXPECT_EQ(small.translator.counts().repaired, 6u);
}

TEST(Translator, AcceptsUnusualText) {
  SmallTranslator small(small_vocabulary());
  const std::vector<std::string> lines = {std::string("the\0number", 10),
                                          std::string(1, '\0'),
                                          "\u2028the\u2029",
                                          "👩‍👩‍👧‍👦 \u202E number",
                                          "\u2581\u2581",
                                          "\x1b[31m",
                                          "\u0301",
                                          "the\rnumber\vis\fby\u0085"};
  for (const std::string& answer : small.best(lines)) {
    for (const char* breaks : {"\n", "\r", "\v", "\f", "\u0085", "\u2028", "\u2029"}) {
      EXPECT_THAT(answer, Not(HasSubstr(breaks)));
    }
  }
}

TEST(Translator, TranslatesALongLineInFragmentsAndJoinsThem) {
  const Vocabulary& vocabulary = small_vocabulary();
  SmallTranslator small(vocabulary);  // the model accepts 12 tokens, end included
  std::string line;
  for (int i = 0; i < 40; ++i) line += "the number 12 is followed. auf die Zahl folgt ";
  std::vector<uint32_t> ids;
  Encoder(vocabulary).encode(line, ids);
  std::string wanted;
  size_t tokens = 0;
  for (auto part : cut_into_fragments(vocabulary, ids, 11)) {
    auto found = beam_search(small.device, small.model.model, small.model.parameters, {[&] {
                               std::vector<uint32_t> source(part.begin(), part.end());
                               source.push_back(vocabulary.eos());
                               return source;
                             }()},
                             {vocabulary.bos(), vocabulary.eos()}, {.beam = 2});
    const std::string text = vocabulary.decode(found[0][0].ids);
    wanted += (wanted.empty() || text.empty() ? "" : " ") + text;
    tokens += part.size() + 1;
  }
  EXPECT_EQ(small.best_of(line), wanted);
  EXPECT_EQ(small.translator.counts().cut, 1u);
  EXPECT_EQ(small.translator.counts().source_tokens, tokens);
}

TEST(Translator, EachFragmentBeginsWithTheTagOfTheLanguage) {
  const Vocabulary& vocabulary = small_vocabulary();
  constexpr uint32_t kTag = 7;  // any piece
  SmallTranslator small(vocabulary, 1, {.beam = 2}, {.tag = kTag});
  std::string line;
  for (int i = 0; i < 10; ++i) line += "the number 12 is followed. ";
  const std::vector<std::string> lines = {line, "", "the"};
  const EncodedLines encoded = small.translator.encode(lines);
  ASSERT_GT(encoded.first_source[1], 3u);
  EXPECT_EQ(encoded.first_source[2], encoded.first_source[1]);  // nothing to translate
  for (const std::vector<uint32_t>& source : encoded.sources) {
    EXPECT_EQ(source.front(), kTag);
    EXPECT_EQ(source.back(), vocabulary.eos());
    EXPECT_GT(source.size(), 2u);
    EXPECT_LE(source.size(), 12u);  // the model accepts no more
  }
}

TEST(Translator, ListsTheBestTranslationsInOrder) {
  SmallTranslator small(small_vocabulary(), 4, {.beam = 4, .max_ratio = 1});
  auto lists = small.translator.translate(
      std::vector<std::string>{"the number", "", "by number 12 is", std::string(300, '7')});
  ASSERT_EQ(lists.size(), 4u);
  for (const auto& list : lists) {
    ASSERT_FALSE(list.empty());
    ASSERT_LE(list.size(), 4u);
    for (size_t i = 1; i < list.size(); ++i) EXPECT_LE(list[i].score, list[i - 1].score + 1e-9);
  }
  EXPECT_GT(lists[0].size(), 1u);
  EXPECT_EQ(lists[1].size(), 1u);
  EXPECT_EQ(lists[1][0].text, "");
  SmallTranslator one(small_vocabulary(), 1, {.beam = 4, .max_ratio = 1});
  EXPECT_EQ(one.best_of("the number"), lists[0][0].text);
}

TEST(Translator, ReadsPiecesAndWritesTextWithAPieceList) {
  const Vocabulary pieces = small_piece_list();
  SmallTranslator small(pieces);
  for (const std::string& answer : small.best({"▁a c ▁b .", "▁b", "", "unknown ▁a"})) {
    EXPECT_THAT(answer, Not(HasSubstr("▁")));
  }
  EXPECT_EQ(small.best_of("▁a  c"), small.best_of("▁a c"));
  EXPECT_EQ(small.translator.counts().source_tokens, 5u + 2 + 3 + 3 + 3);
}

TEST(Vocabulary, UnknownPiecesOfATranslationBecomeThoseOfTheSource) {
  const Vocabulary& vocabulary = small_vocabulary();
  const std::string line = "the 日本 is followed. 語 number";
  std::vector<uint32_t> ids;
  Encoder(vocabulary).encode(line, ids);
  const std::vector<std::string> unknown = vocabulary.unknown_pieces(line);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), vocabulary.unk()), 2);
  EXPECT_EQ(unknown, (std::vector<std::string>{"日本", "語"}));
  EXPECT_EQ(vocabulary.decode(ids, unknown), line);
  EXPECT_EQ(vocabulary.decode(ids, std::vector<std::string>{"X"}), "the X is followed.  number");
  ids.clear();
  Encoder(vocabulary).encode("the number", ids);
  EXPECT_EQ(vocabulary.decode(ids, unknown), "the number");

  const Vocabulary list = small_piece_list();
  ids.clear();
  Encoder(list).encode("▁a ▁x c", ids);
  EXPECT_EQ(list.unknown_pieces("▁a ▁x c"), std::vector<std::string>{"▁x"});
  EXPECT_EQ(list.decode(ids, list.unknown_pieces("▁a ▁x c")), "a xc");
}

TEST(Translator, NeverWritesAnUnknownPiece) {
  SmallTranslator small(small_vocabulary(), 4,
                        {.beam = 4, .min_length = 3, .forced_prefixes = true});
  const std::vector<std::string> lines = {"日本 number", "the number"};
  // Prefixes that are unknown stand for translations with <unk>.
  const auto found = small.translator.translate(lines, {}, 0, std::vector<std::string>{"語", "語"});
  for (const Translation& one : found[0]) {
    EXPECT_THAT(one.text, ::testing::StartsWith("日本"));
    EXPECT_THAT(one.text, Not(HasSubstr("⁇")));
  }
  for (const Translation& one : found[1]) EXPECT_THAT(one.text, Not(HasSubstr("⁇")));
}

}  // namespace
}  // namespace reigen
