// Each cleaning rule drops, accepts, and can be switched off.
#include "text/cleaner.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

Rule clean(std::string source, std::string target, CleanOptions options = {}) {
  return Cleaner(options, "en", "de", false).clean(source, target);
}

TEST(Cleaner, AcceptsAnOrdinaryPair) {
  EXPECT_EQ(clean("Good morning", "Guten Morgen"), Rule::kKept);
}

TEST(Cleaner, DropsInvalidUtf8OnEitherSideOrRepairsItIfTheRuleIsOff) {
  EXPECT_EQ(clean("bad \xFC", "gut"), Rule::kUtf8);
  EXPECT_EQ(clean("good", "schlecht \xFC"), Rule::kUtf8);
  std::string source = "bad \xFC";
  std::string target = "gut";
  EXPECT_EQ(Cleaner({.utf8 = false}, "en", "de", false).clean(source, target), Rule::kKept);
  EXPECT_EQ(source, "bad \uFFFD");
}

TEST(Cleaner, DropsControlCharactersUnlessTheRuleIsOff) {
  EXPECT_EQ(clean("a\ab", "c"), Rule::kControl);
  std::string source = "a\ab";
  std::string target = "c";
  EXPECT_EQ(Cleaner({.control = false}, "en", "de", false).clean(source, target), Rule::kKept);
  EXPECT_EQ(source, "a\ab");
}

TEST(Cleaner, DropsASideThatIsEmptyOrWhiteSpace) {
  EXPECT_EQ(clean("", "etwas"), Rule::kEmpty);
  EXPECT_EQ(clean("something", " \u00A0\t"), Rule::kEmpty);
  EXPECT_EQ(clean("something", "", {.empty = false}), Rule::kKept);
}

TEST(Cleaner, DropsCopiesThatAppearAfterNormalisation) {
  EXPECT_EQ(clean("Hotel  California", "Hotel California"), Rule::kCopy);
  EXPECT_EQ(clean("Hotel", "Hotel", {.copy = false}), Rule::kKept);
}

TEST(Cleaner, DropsTheWrongScript) {
  EXPECT_EQ(clean("Hello there", "Привет"), Rule::kScript);
  EXPECT_EQ(clean("Hello there", "Привет", {.min_script = 0}), Rule::kKept);
  EXPECT_EQ(clean("The word мир means peace", "Das Wort мир heißt Frieden"), Rule::kKept);
}

TEST(Cleaner, NormalisesInPlace) {
  std::string source = "  ﬁne   day ";
  std::string target = "Schöner\u00A0Tag";
  EXPECT_EQ(Cleaner({}, "en", "de", false).clean(source, target), Rule::kKept);
  EXPECT_EQ(source, "fine day");
  EXPECT_EQ(target, "Schöner Tag");
}

TEST(Cleaner, LeavesTextThatIsCutIntoPiecesUnnormalised) {
  std::string source = "▁ﬁ ne";
  std::string target = "▁fein";
  EXPECT_EQ(Cleaner({}, "en", "de", true).clean(source, target), Rule::kKept);
  EXPECT_EQ(source, "▁ﬁ ne");
}

TEST(Cleaner, ChecksLengthsInPieces) {
  Cleaner cleaner({.max_ratio = 3, .min_pieces = 2, .max_pieces = 100}, "en", "de", false);
  EXPECT_EQ(cleaner.check_lengths(10, 12), Rule::kKept);
  EXPECT_EQ(cleaner.check_lengths(2, 16), Rule::kKept);  // (16 + 5) / (2 + 5) is exactly 3
  EXPECT_EQ(cleaner.check_lengths(2, 17), Rule::kRatio);
  EXPECT_EQ(cleaner.check_lengths(17, 2), Rule::kRatio);
  EXPECT_EQ(cleaner.check_lengths(1, 2), Rule::kPieces);
  EXPECT_EQ(cleaner.check_lengths(100, 100), Rule::kKept);
  EXPECT_EQ(cleaner.check_lengths(100, 101), Rule::kPieces);
  Cleaner off({.max_ratio = 0, .min_pieces = 0, .max_pieces = 0}, "en", "de", false);
  EXPECT_EQ(off.check_lengths(0, 100'000), Rule::kKept);
}

TEST(Cleaner, NamesEveryRule) {
  EXPECT_STREQ(rule_name(Rule::kMalformed), "malformed");
  EXPECT_STREQ(rule_name(Rule::kRatio), "ratio");
  EXPECT_STREQ(rule_name(Rule::kPieces), "pieces");
}

}  // namespace
}  // namespace reigen
