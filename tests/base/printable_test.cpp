// Escapes of text that must not steer a terminal.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Printable, LeavesOrdinaryTextAsItIs) {
  for (const char* text : {"", "plain", "Größe 大きさ 🙂 é", "a\tb\nc\n", "\u00a0\u200e"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, ShowsControlCharacters) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\rb\bc\x7f"), "a\\x0db\\x08c\\x7f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");  // a CSI of one character
}

TEST(Printable, ShowsBidirectionalOverrides) {
  EXPECT_EQ(printable("a\u202eb\u202c"), "a\\u202eb\\u202c");
  EXPECT_EQ(printable("\u2066x\u2069"), "\\u2066x\\u2069");
  EXPECT_EQ(printable("\u2029\u202f\u2065"), "\u2029\u202f\u2065");  // their neighbours
}

TEST(Printable, ShowsBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("r\xe9s"), "r\\xe9s");
  EXPECT_EQ(printable("\x9b"), "\\x9b");
  EXPECT_EQ(printable("\xc1\x9b"), "\\xc1\\x9b");           // an overlong ESC
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("x\xe2\x80"), "x\\xe2\\x80");  // cut off
}

TEST(Printable, ALineHasNoNewlines) { EXPECT_EQ(printable_line("a\nb\tc"), "a\\x0ab\\x09c"); }

TEST(IsUtf8, AcceptsOnlyWellFormedText) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("Größe 🙂\x1b"));
  EXPECT_FALSE(is_utf8("r\xe9s"));
  EXPECT_FALSE(is_utf8("\xe2\x80"));
}

TEST(ShellWord, IsQuotedWhereAShellWouldSplitOrExpandIt) {
  EXPECT_EQ(shell_word("/runs/a-1.b"), "/runs/a-1.b");
  EXPECT_EQ(shell_word("my runs/a"), "'my runs/a'");
  EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace reigen
