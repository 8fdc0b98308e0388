// Unicode: validity, white space, line breaks and scripts.
#include "text/unicode.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Unicode, DistinguishesValidFromInvalidUtf8) {
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("plain"));
  EXPECT_TRUE(is_valid_utf8("Müller straße 🙂"));
  EXPECT_FALSE(is_valid_utf8("Latin-1 \xFC"));
  EXPECT_FALSE(is_valid_utf8("cut short \xC3"));
  EXPECT_FALSE(is_valid_utf8("overlong \xC0\xAF"));
  EXPECT_FALSE(is_valid_utf8("surrogate \xED\xA0\x80"));
}

TEST(Unicode, ReplacesInvalidBytesAndPreservesTheRest) {
  EXPECT_EQ(repair_utf8("a\xFC"
                        "b\xC3\xBC"),
            "a\uFFFDb\u00FC");
}

TEST(Unicode, FindsControlCharactersButNotWhiteSpace) {
  EXPECT_FALSE(has_control("tab\tand line\nand return\r"));
  EXPECT_FALSE(has_control("caf\u00E9 \u00A0"));  // U+00A0 starts with the byte that C1 starts with
  EXPECT_TRUE(has_control("bell\a"));
  EXPECT_TRUE(has_control("delete\x7F"));
  EXPECT_TRUE(has_control("C1 \u0092"));
  EXPECT_TRUE(has_control(std::string_view("nul\0", 4)));
}

TEST(Unicode, NormalisesToNfkc) {
  EXPECT_EQ(to_nfkc("ﬁne ½ Å e\u0301"), "fine 1\u20442 Å \u00E9");
  EXPECT_EQ(to_nfkc("ascii stays"), "ascii stays");
}

TEST(Unicode, SqueezesEveryKindOfWhiteSpace) {
  EXPECT_EQ(squeeze_whitespace("  a \t b\r\n"), "a b");
  EXPECT_EQ(squeeze_whitespace("\u00A0ä\u2003\u3000ö\u0085"), "ä ö");
  EXPECT_EQ(squeeze_whitespace(" \t "), "");
}

TEST(Unicode, TurnsEveryKindOfLineBreakIntoASpace) {
  EXPECT_EQ(without_line_breaks("a\nb\r\nc\vd\fe\x1C\x1D\x1E"), "a b  c d e   ");
  EXPECT_EQ(without_line_breaks("ä\u0085ö\u2028ü\u2029"), "ä ö ü ");
  EXPECT_EQ(without_line_breaks("tabs\tand \u00A0 stay\u2027"), "tabs\tand \u00A0 stay\u2027");
}

TEST(ScriptTest, KnowsTheScriptOfALanguage) {
  ScriptTest german("de");
  EXPECT_EQ(german.share("Grüße, 42!"), 1);
  EXPECT_EQ(german.share("Привет"), 0);
  EXPECT_DOUBLE_EQ(german.share("ab вг"), 0.5);
  ScriptTest russian("ru");
  EXPECT_EQ(russian.share("Привет"), 1);
  EXPECT_EQ(russian.share("hello"), 0);
  ScriptTest japanese("ja");
  EXPECT_EQ(japanese.share("日本語のテキスト"), 1);
}

TEST(ScriptTest, AcceptsTextWithoutLetters) {
  EXPECT_EQ(ScriptTest("en").share("2024-01-01 ... 100%"), 1);
  EXPECT_EQ(ScriptTest("en").share(""), 1);
}

TEST(Languages, AreRecognisedByTheirTags) {
  EXPECT_TRUE(is_known_language("en"));
  EXPECT_TRUE(is_known_language("pt-BR"));
  EXPECT_TRUE(is_known_language("en_US"));
  EXPECT_FALSE(is_known_language("xx"));
  EXPECT_FALSE(is_known_language("english language"));
}

}  // namespace
}  // namespace reigen
