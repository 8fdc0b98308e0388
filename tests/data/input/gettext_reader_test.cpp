// gettext catalogues, compared with the tools of gettext.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "data/seen_pairs.h"

namespace reigen {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GettextReaderTest : public ReaderTest {};

constexpr const char* kPo = R"(# header
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\n"

#: src/a.c:1
msgid "Open"
msgstr "Öffnen"
#, fuzzy
#| msgid "Shut"
msgid "Close"
msgstr "Schliessen?"
msgctxt "menu"
msgid ""
"Save "
"\"now\"\n"
msgstr ""
"\"Jetzt\" "
"sichern\n"

msgid "one file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"
msgid "Untranslated"
msgstr ""
#~ msgid "Old"
#~ msgstr "Alt"
)";

TEST_F(GettextReaderTest, ReadsPoWithContextsPluralsAndContinuedLines) {
  EXPECT_THAT(open({.paths = {file("a.po", kPo)}}),
              ElementsAre(Seen{"Open", "Öffnen"}, Seen{"Close", "Schliessen?", true},
                          Seen{"Save \"now\"\n", "\"Jetzt\" sichern\n"},
                          Seen{"one file", "eine Datei"}, Seen{"%d files", "%d Dateien"},
                          Seen{"Untranslated", ""}, Seen{"Old", "Alt", true}));
}

TEST_F(GettextReaderTest, ReadsTheOutputOfMsgfmtInEitherByteOrder) {
  std::string po = file("a.po", kPo);
  for (const char* order : {"little", "big"}) {
    std::string mo = dir_.path(format("{}.mo", order));
    std::string command = format("msgfmt --endianness={} -o {} {}", order, mo, po);
    ASSERT_EQ(std::system(command.c_str()), 0);
    // msgfmt sorts, and omits fuzzy and untranslated entries.
    EXPECT_THAT(open({.paths = {mo}}),
                ::testing::UnorderedElementsAre(
                    Seen{"Open", "Öffnen"}, Seen{"Save \"now\"\n", "\"Jetzt\" sichern\n"},
                    Seen{"one file", "eine Datei"}, Seen{"%d files", "%d Dateien"}));
  }
}

TEST_F(GettextReaderTest, NamesTheLineOfMalformedPo) {
  try {
    open({.paths = {file("a.po", "msgid \"a\"\nmsgstr \"b\nbogus \"c\"\n")}});
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.po:2"));
  }
}

TEST_F(GettextReaderTest, RejectsAMoFileWithTablesPastItsEnd) {
  EXPECT_THROW(open({.paths = {file("short.mo", "\xde\x12\x04\x95")}}), DataError);
  std::string bytes("\xde\x12\x04\x95\0\0\0\0\xff\xff\xff\x7f\x1c\0\0\0\x1c\0\0\0", 20);
  EXPECT_THROW(open({.paths = {file("huge.mo", bytes)}}), DataError);
  EXPECT_THROW(open({.paths = {file("not.mo", std::string(40, 'x'))}}), DataError);
}

constexpr const char* kHeader =
    "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=UTF-8\\n\"\n";

TEST_F(GettextReaderTest, DecodesEveryEscapeAsMsgfmtDoes) {
  std::string po = file("a.po", kHeader + std::string(R"(msgid "key"
msgstr "\x41\102\a\b\f\v\\\"|\x00041z|\1018|\x4a4b!|\t\r\n\377|\xc3\xbc|" "two\\" ""
"three" # comment
)"));
  ASSERT_EQ(std::system(format("msgfmt -o {}/a.mo {}", dir_.path(), po).c_str()), 0);
  std::vector<Seen> pairs = open({.paths = {po}});
  EXPECT_THAT(pairs,
              ElementsAre(Seen{"key", "AB\a\b\f\v\\\"|Az|A8|K!|\t\r\n\377|\u00fc|two\\three"}));
  EXPECT_EQ(pairs, open({.paths = {dir_.path("a.mo")}}));
}

TEST_F(GettextReaderTest, NamesTheLineOfAnErrorThatMsgfmtReports) {
  for (const char* text : {R"("\q")", R"("\x")", R"("\")", R"("a" b)", R"("a"b")", R"("a)", "a"}) {
    std::string po = file("a.po", kHeader + format("msgid \"key\"\nmsgstr {}\n", text));
    EXPECT_NE(std::system(format("msgfmt -o /dev/null {} 2> /dev/null", po).c_str()), 0) << text;
    EXPECT_THAT(error_of({.paths = {po}}), HasSubstr("a.po:4: ")) << text;
  }
}

TEST_F(GettextReaderTest, RejectsATranslationWithoutItsMsgid) {
  EXPECT_THAT(error_of({.paths = {file("a.po", "msgid \"a\"\n# why\nmsgstr \"b\"\n")}}),
              HasSubstr("a.po:3: msgstr without a msgid"));
}

TEST_F(GettextReaderTest, RejectsOtherCharsetsAndNamesTheConversion) {
  std::string po = file("a.po",
                        "msgid \"\"\nmsgstr \"\"\n\"Content-Type: text/plain; "
                        "charset=ISO-8859-1\\n\"\n\nmsgid \"a\"\nmsgstr \"\xe4\"\n");
  EXPECT_THAT(error_of({.paths = {po}}),
              AllOf(HasSubstr("charset=ISO-8859-1"), HasSubstr("msgconv --to-code=UTF-8")));
  std::string fixed = dir_.path("fixed.po");
  ASSERT_EQ(std::system(format("msgconv --to-code=UTF-8 {} > {}", po, fixed).c_str()), 0);
  EXPECT_THAT(open({.paths = {fixed}}), ElementsAre(Seen{"a", "ä"}));
}

TEST_F(GettextReaderTest, RejectsOtherCharsetsInMoToo) {
  std::string command =
      format("msgfmt -o - {} | sed s/UTF-8/KOI-8/ > {}", file("a.po", kPo), dir_.path("koi.mo"));
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(error_of({.paths = {dir_.path("koi.mo")}}),
              AllOf(HasSubstr("charset=KOI-8"), HasSubstr("msgconv")));
}

TEST_F(GettextReaderTest, AcceptsEveryNameOfUtf8AndThePlaceholderOfTemplates) {
  for (const char* name : {"UTF-8", "utf-8", "utf8", "ASCII", "us-ascii", "CHARSET", ""}) {
    std::string header = format("msgid \"\"\nmsgstr \"Content-Type: x; charset={}\\n\"\n", name);
    EXPECT_THAT(open({.paths = {file("a.po", header + "msgid \"a\"\nmsgstr \"b\"\n")}}),
                ElementsAre(Seen{"a", "b"}))
        << name;
  }
  EXPECT_THAT(open({.paths = {file("a.po", "msgid \"a\"\nmsgstr \"b\"\n")}}),
              ElementsAre(Seen{"a", "b"}));
}

TEST_F(GettextReaderTest, CountsObsoleteEntriesAsMalformed) {
  std::string po = file("a.po", R"(msgid "now"
msgstr "jetzt"

#, fuzzy
#~| msgid "a previous one"
#~ msgctxt "menu"
#~ msgid ""
#~ "old "
#~ "one"
#~ msgstr "alt"
#~ # a comment
#~ msgid "file"
#~ msgid_plural "files"
#~ msgstr[0] "Datei"
#~ msgstr[1] "Dateien"

msgid "later"
msgstr "danach"
)");
  EXPECT_THAT(
      open({.paths = {po}}),
      ElementsAre(Seen{"now", "jetzt"}, Seen{"old one", "alt", true}, Seen{"file", "Datei", true},
                  Seen{"files", "Dateien", true}, Seen{"later", "danach"}));
}

TEST_F(GettextReaderTest, CountsAPluralWithoutASecondFormAsMalformed) {
  std::string po = file("ja.po", R"(msgid "a file"
msgid_plural "%d files"
msgstr[0] "ファイル"
)");
  ASSERT_EQ(std::system(format("msgfmt -o {}/ja.mo {}", dir_.path(), po).c_str()), 0);
  for (const std::string& path : {po, dir_.path("ja.mo")}) {
    EXPECT_THAT(open({.paths = {path}}),
                ElementsAre(Seen{"a file", "ファイル"}, Seen{"%d files", "", true}));
  }
  po = file("new.po", "msgid \"a\"\nmsgid_plural \"b\"\nmsgstr[0] \"\"\nmsgstr[1] \"\"\n");
  EXPECT_THAT(open({.paths = {po}}), ElementsAre(Seen{"a", ""}, Seen{"b", ""}));
}

TEST_F(GettextReaderTest, CutsAStringThatIsTooLong) {
  std::string line = "\"" + std::string(kMaxLineBytes / 4, 'a') + "\"\n";
  std::string lines = line + line + line + line + line + line;
  std::string po = file("a.po", "msgid \"short\"\nmsgstr \"\"\n" + lines +  // many lines
                                    "msgid \"" + std::string(2 * kMaxLineBytes, 'b') +
                                    "\"\nmsgstr \"one line\"\n");
  ASSERT_EQ(std::system(format("msgfmt -o {}/a.mo {}", dir_.path(), po).c_str()), 0);
  for (const std::string& path : {po, dir_.path("a.mo")}) {
    size_t cut = 0;
    for (const Seen& pair : open({.paths = {path}})) {
      size_t longest = std::max(pair.source.size(), pair.target.size());
      EXPECT_EQ(longest, kMaxLineBytes + 1);
      EXPECT_TRUE(pair.source == "short" || pair.target == "one line");
      ++cut;
    }
    EXPECT_EQ(cut, 2u) << path;
  }
}

}  // namespace
}  // namespace reigen
