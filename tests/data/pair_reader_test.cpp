// Every format of parallel text, as users have it.
#include "data/pair_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Seen {
  std::string source;
  std::string target;
  bool malformed = false;
  bool operator==(const Seen&) const = default;
};
void PrintTo(const Seen& s, std::ostream* out) {
  *out << "{" << s.source << " | " << s.target << (s.malformed ? " | malformed}" : "}");
}

std::vector<Seen> read_pairs(PairReader& reader) {
  std::vector<Seen> all;
  for (RawPair pair; reader.next(pair); pair = {}) {
    all.push_back({pair.source, pair.target, pair.malformed});
  }
  return all;
}

class PairReaderTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) {
    write_text(dir_.path(name), text);
    return dir_.path(name);
  }
  std::vector<Seen> open(CorpusSpec spec) { return read_pairs(*open_pairs(spec, "en", "de")); }

  TempDir dir_;
};

TEST_F(PairReaderTest, PairsTwoTextFilesLineByLine) {
  CorpusSpec spec{.paths = {file("a.en", "one\ntwo\n"), file("a.de", "eins\nzwei")}};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}, Seen{"two", "zwei"}));
}

TEST_F(PairReaderTest, SaysBothLineCountsWhenTheyDiffer) {
  CorpusSpec spec{.paths = {file("a.en", "1\n2\n3\n"), file("a.de", "1\n2\n3\n4\n5\n")}};
  try {
    open(spec);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.en has 3 lines"));
    EXPECT_THAT(e.what(), HasSubstr("a.de has 5"));
  }
}

TEST_F(PairReaderTest, TakesTheFirstTwoColumnsOfTsvAndMarksLinesWithOne) {
  CorpusSpec spec{.paths = {file("a.tsv", "one\teins\nonly\nthree\tdrei\t0.7\n\tempty\n")}};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}, Seen{"only", "", true},
                                      Seen{"three", "drei"}, Seen{"", "empty"}));
}

TEST_F(PairReaderTest, SwapsSidesOnRequest) {
  CorpusSpec spec{.paths = {file("a.tsv", "eins\tone\n")}, .swap = true};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}));
}

TEST_F(PairReaderTest, TellsTheFormatByNameAlsoWhenCompressed) {
  file("a.tsv", "one\teins\n");
  ASSERT_EQ(std::system(format("gzip -f {}", dir_.path("a.tsv")).c_str()), 0);
  EXPECT_THAT(open({.paths = {dir_.path("a.tsv.gz")}}), ElementsAre(Seen{"one", "eins"}));
  EXPECT_THAT(open({.paths = {file("b.txt", "x\ty\n")}, .format = "tsv"}),
              ElementsAre(Seen{"x", "y"}));
  EXPECT_THROW(open({.paths = {file("c.txt", "x\ty\n")}}), ConfigError);
}

constexpr const char* kTmx = R"(<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="EN"/><body>
<tu><tuv xml:lang="en-GB"><seg>A &amp; <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> move</seg></tuv>
<tuv xml:lang="DE"><seg>Ein <hi>mutiger</hi> Zug</seg></tuv><tuv xml:lang="fr"><seg>Non</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Zuerst Deutsch</seg></tuv><tuv xml:lang="en"><seg>German first</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv></tu>
</body></tmx>)";

TEST_F(PairReaderTest, ReadsTmxByLanguageWithoutItsInlineCodes) {
  EXPECT_THAT(open({.paths = {file("a.tmx", kTmx)}}),
              ElementsAre(Seen{"A & bold move", "Ein mutiger Zug"},
                          Seen{"German first", "Zuerst Deutsch"}, Seen{"Only English", "", true}));
}

TEST_F(PairReaderTest, ReadsTmxInUtf16) {
  file("a.tmx", kTmx);
  std::string command =
      format("sed 's/UTF-8/UTF-16/' {0} | iconv -f UTF-8 -t UTF-16 > {0}.16", dir_.path("a.tmx"));
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(open({.paths = {dir_.path("a.tmx.16")}, .format = "tmx"}).size(), 3u);
}

TEST_F(PairReaderTest, NamesTheLineOfMalformedTmx) {
  try {
    open({.paths = {file("a.tmx", "<tmx>\n<body>\n<tu></body></tmx>")}});
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.tmx:3"));
  }
  EXPECT_THROW(open({.paths = {file("cut.tmx", std::string(kTmx).substr(0, 400))}}), DataError);
}

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

TEST_F(PairReaderTest, ReadsPoWithContextsPluralsAndContinuedLines) {
  EXPECT_THAT(
      open({.paths = {file("a.po", kPo)}}),
      ElementsAre(Seen{"Open", "Öffnen"}, Seen{"Close", "Schliessen?", true},
                  Seen{"Save \"now\"\n", "\"Jetzt\" sichern\n"}, Seen{"one file", "eine Datei"},
                  Seen{"%d files", "%d Dateien"}, Seen{"Untranslated", ""}));
}

TEST_F(PairReaderTest, ReadsWhatMsgfmtCompiledInEitherByteOrder) {
  std::string po = file("a.po", kPo);
  for (const char* order : {"little", "big"}) {
    std::string mo = dir_.path(format("{}.mo", order));
    std::string command = format("msgfmt --endianness={} -o {} {}", order, mo, po);
    ASSERT_EQ(std::system(command.c_str()), 0);
    // msgfmt sorts, and leaves out what is fuzzy or untranslated.
    EXPECT_THAT(open({.paths = {mo}}),
                ::testing::UnorderedElementsAre(
                    Seen{"Open", "Öffnen"}, Seen{"Save \"now\"\n", "\"Jetzt\" sichern\n"},
                    Seen{"one file", "eine Datei"}, Seen{"%d files", "%d Dateien"}));
  }
}

TEST_F(PairReaderTest, NamesTheLineOfMalformedPo) {
  try {
    open({.paths = {file("a.po", "msgid \"a\"\nmsgstr \"b\nbogus \"c\"\n")}});
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.po:2"));
  }
}

TEST_F(PairReaderTest, RefusesAMoFileWhoseTablesLeaveTheFile) {
  EXPECT_THROW(open({.paths = {file("short.mo", "\xde\x12\x04\x95")}}), DataError);
  std::string bytes("\xde\x12\x04\x95\0\0\0\0\xff\xff\xff\x7f\x1c\0\0\0\x1c\0\0\0", 20);
  EXPECT_THROW(open({.paths = {file("huge.mo", bytes)}}), DataError);
  EXPECT_THROW(open({.paths = {file("not.mo", std::string(40, 'x'))}}), DataError);
}

}  // namespace
}  // namespace reigen
