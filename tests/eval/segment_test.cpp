// Tokenisation by hand; bleu_test.cpp compares 13a with sacreBLEU's own tokens from the fixture.
#include "eval/segment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Tokenize13a, SetsPunctuationApart) {
  EXPECT_EQ(tokenize_13a("Hello, world!"), "Hello , world !");
  EXPECT_EQ(tokenize_13a("(a/b) = \"c\""), "( a / b ) = \" c \"");
  EXPECT_EQ(tokenize_13a("5% of $3"), "5 % of $ 3");
}

TEST(Tokenize13a, LeavesApostrophesAndHyphensInWords) {
  EXPECT_EQ(tokenize_13a("it's well-known"), "it's well-known");
  EXPECT_EQ(tokenize_13a("'quoted' -"), "'quoted' -");
}

TEST(Tokenize13a, DoesNotSplitStopsBetweenDigits) {
  EXPECT_EQ(tokenize_13a("1,000.5"), "1,000.5");
  EXPECT_EQ(tokenize_13a("1. a.5 5.a .5 5,"), "1 . a . 5 5 . a . 5 5 ,");
  EXPECT_EQ(tokenize_13a("1.,2"), "1 . , 2");
}

TEST(Tokenize13a, SplitsAHyphenFromTheDigitBeforeIt) {
  EXPECT_EQ(tokenize_13a("1990-1995 2-year -5"), "1990 - 1995 2 - year -5");
}

TEST(Tokenize13a, CountsOnlyAsciiDigitsAsDigits) {
  EXPECT_EQ(tokenize_13a("\u0663.\u0664"), "\u0663 . \u0664");
  EXPECT_EQ(tokenize_13a("\u00e9.5"), "\u00e9 . 5");
}

TEST(Tokenize13a, LeavesOtherScriptsAndTheirPunctuationAlone) {
  EXPECT_EQ(tokenize_13a("\u4eca\u5929\u3002\u201eJa\u201c\u2026"),
            "\u4eca\u5929\u3002\u201eJa\u201c\u2026");
}

TEST(Tokenize13a, DecodesEntitiesInMtevalsOrder) {
  EXPECT_EQ(tokenize_13a("&quot;a&quot; &amp; &lt;b&gt;"), "\" a \" & < b >");
  EXPECT_EQ(tokenize_13a("&amp;lt;"), "<");
  EXPECT_EQ(tokenize_13a("&amp;quot;"), "& quot ;");
  EXPECT_EQ(tokenize_13a("a <skipped> b"), "a b");
}

TEST(Tokenize13a, JoinsWordsSplitByHyphenAndLineBreak) {
  EXPECT_EQ(tokenize_13a("one-\ntwo\nthree\n"), "onetwo three");
}

TEST(Tokenize13a, GivesNothingForAnEmptyLine) {
  EXPECT_EQ(tokenize_13a(""), "");
  EXPECT_EQ(tokenize_13a(" \t\u00a0"), "");
}

TEST(SplitWords, SplitsWherePythonDoes) {
  EXPECT_THAT(split_words("a\u00a0b\u3000c\x1c"
                          "d\u0085e\u2028f\tg"),
              ElementsAre("a", "b", "c", "d", "e", "f", "g"));
  EXPECT_THAT(split_words("  a  b "), ElementsAre("a", "b"));
  EXPECT_THAT(split_words("a\u200bb\ufeff"), ElementsAre("a\u200bb\ufeff"));
  EXPECT_THAT(split_words(""), IsEmpty());
}

TEST(ChrfWords, SplitsOneMarkFromTheEndElseFromTheStart) {
  EXPECT_THAT(chrf_words("(hi) \"yes -no a..."),
              ElementsAre("(hi", ")", "\"", "yes", "-", "no", "a..", "."));
}

TEST(ChrfWords, LeavesSingleCharactersAndOtherMarksWhole) {
  EXPECT_THAT(chrf_words(". \u00e9 \u00e9. \u201eJa\u201c"),
              ElementsAre(".", "\u00e9", "\u00e9", ".", "\u201eJa\u201c"));
}

TEST(Characters, AreCodePointsWithoutWhiteSpace) {
  EXPECT_THAT(characters("a \u00e9\u4eca\U0001f600\t"), ElementsAre('a', 0xE9, 0x4ECA, 0x1F600));
  EXPECT_THAT(characters("e\u0301"), ElementsAre('e', 0x301));
}

TEST(Characters, NeverReadsPastATruncatedCharacter) {
  for (size_t size = 0; size <= 4; ++size) {
    const std::string cut = std::string("\xF0\x9F\x98\x80").substr(0, size);
    EXPECT_EQ(characters(cut).size(), size == 0 ? 0u : 1u);
    tokenize_13a(cut);
    chrf_words(cut);
  }
}

}  // namespace
}  // namespace reigen
