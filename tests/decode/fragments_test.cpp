// The places where long lines are cut; no piece is lost.
#include "decode/fragments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/hash.h"
#include "decode/small_translator.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

const char* kPieceList = "</s>\n<unk>\n▁a\n▁b\nc\n.\n。\n\"\n▁x.\n」\n?\n";

std::vector<std::string> parts_of(const std::string& line, size_t most) {
  const Vocabulary vocabulary = Vocabulary::from_piece_list(kPieceList, "test.vocab");
  std::vector<uint32_t> ids;
  Encoder(vocabulary).encode(line, ids);
  std::vector<std::string> out;
  for (auto part : cut_into_fragments(vocabulary, ids, most)) {
    std::string text;
    for (uint32_t id : part) text += (text.empty() ? "" : " ") + vocabulary.piece(id);
    out.push_back(text);
  }
  return out;
}

TEST(Fragments, LeaveAShortLineWhole) {
  EXPECT_THAT(parts_of("▁a c ▁b", 3), ElementsAre("▁a c ▁b"));
  EXPECT_TRUE(parts_of("", 3).empty());
}

TEST(Fragments, EndWithTheLastSentenceThatFits) {
  EXPECT_THAT(parts_of("▁a . ▁b . ▁a c c ▁b", 6), ElementsAre("▁a . ▁b .", "▁a c c ▁b"));
  EXPECT_THAT(parts_of("▁a ? ▁b ▁b ▁a", 4), ElementsAre("▁a ?", "▁b ▁b ▁a"));
  EXPECT_THAT(parts_of("▁a ▁x. ▁b ▁b", 3), ElementsAre("▁a ▁x.", "▁b ▁b"));
}

TEST(Fragments, IncludeTheClosingQuotesOfASentence) {
  EXPECT_THAT(parts_of("▁a . \" ▁b ▁b", 4), ElementsAre("▁a . \"", "▁b ▁b"));
  EXPECT_THAT(parts_of("c 。 」 c c c", 4), ElementsAre("c 。 」", "c c c"));
}

TEST(Fragments, DoNotEndASentenceInsideAWord) {
  EXPECT_THAT(parts_of("▁a ▁b . c c", 4), ElementsAre("▁a", "▁b . c c"));
}

TEST(Fragments, EndSentencesOfScriptsWithoutSpaces) {
  EXPECT_THAT(parts_of("c c 。 c c c c", 5), ElementsAre("c c 。", "c c c c"));
}

TEST(Fragments, EndBeforeAWordWhereNoSentenceEnds) {
  EXPECT_THAT(parts_of("▁a c ▁b c c ▁a", 4), ElementsAre("▁a c", "▁b c c ▁a"));
}

TEST(Fragments, CutAnywhereWithoutAWordBoundary) {
  EXPECT_THAT(parts_of("c c c c c", 2), ElementsAre("c c", "c c", "c"));
  EXPECT_THAT(parts_of("\" \" \"", 1), ElementsAre("\"", "\"", "\""));
}

TEST(Fragments, ConcatenateToTheLine) {
  const Vocabulary vocabulary = Vocabulary::from_piece_list(kPieceList, "test.vocab");
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<uint32_t> ids;
    for (uint64_t i = 0; i < mix64(seed) % 100; ++i) {
      ids.push_back(static_cast<uint32_t>(mix64(seed * 1000 + i) % vocabulary.size()));
    }
    const size_t most = 1 + seed % 13;
    std::vector<uint32_t> together;
    for (auto part : cut_into_fragments(vocabulary, ids, most)) {
      EXPECT_LE(part.size(), most);
      EXPECT_FALSE(part.empty());
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, ids);
  }
}

}  // namespace
}  // namespace reigen
