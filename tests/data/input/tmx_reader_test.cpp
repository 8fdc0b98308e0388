// TMX as translation tools write it, and malformed or hostile files.
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

class TmxReaderTest : public ReaderTest {};

constexpr const char* kTmx = R"(<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="EN"/><body>
<tu><tuv xml:lang="en-GB"><seg>A &amp; <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> move</seg></tuv>
<tuv xml:lang="DE"><seg>Ein <hi>mutiger</hi> Zug</seg></tuv><tuv xml:lang="fr"><seg>Non</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Zuerst Deutsch</seg></tuv><tuv xml:lang="en"><seg>German first</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv></tu>
</body></tmx>)";

TEST_F(TmxReaderTest, ReadsTmxByLanguageWithoutItsInlineCodes) {
  EXPECT_THAT(open({.paths = {file("a.tmx", kTmx)}}),
              ElementsAre(Seen{"A & bold move", "Ein mutiger Zug"},
                          Seen{"German first", "Zuerst Deutsch"}, Seen{"Only English", "", true}));
}

TEST_F(TmxReaderTest, ReadsTmxInUtf16) {
  file("a.tmx", kTmx);
  std::string command =
      format("sed 's/UTF-8/UTF-16/' {0} | iconv -f UTF-8 -t UTF-16 > {0}.16", dir_.path("a.tmx"));
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(open({.paths = {dir_.path("a.tmx.16")}, .format = "tmx"}).size(), 3u);
}

TEST_F(TmxReaderTest, NamesTheLineOfMalformedTmx) {
  try {
    open({.paths = {file("a.tmx", "<tmx>\n<body>\n<tu></body></tmx>")}});
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.tmx:3"));
  }
  EXPECT_THROW(open({.paths = {file("cut.tmx", std::string(kTmx).substr(0, 400))}}), DataError);
}

// `seg` as the English side of the only <tu>.
std::string tmx_with(const std::string& seg, const std::string& doctype = "") {
  return doctype + "<tmx><body>\n<tu><tuv xml:lang='en'><seg>" + seg +
         "</seg></tuv><tuv xml:lang='de'><seg>x</seg></tuv></tu></body></tmx>";
}

constexpr const char* kDoctype = "<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>\n";

TEST_F(TmxReaderTest, ResolvesCommonHtmlEntities) {
  std::string text = tmx_with("Hello&nbsp;world&hellip; a&ndash;b&mdash;c co&shy;op", kDoctype);
  EXPECT_THAT(open({.paths = {file("a.tmx", text)}}),
              ElementsAre(Seen{"Hello\u00A0world\u2026 a\u2013b\u2014c co\u00ADop", "x"}));
}

TEST_F(TmxReaderTest, ExpandsEntitiesDefinedInTheFile) {
  std::string text = tmx_with("at &co;", "<!DOCTYPE tmx [<!ENTITY co 'A &amp; B'>]>");
  EXPECT_THAT(open({.paths = {file("a.tmx", text)}}), ElementsAre(Seen{"at A & B", "x"}));
}

TEST_F(TmxReaderTest, AnUnknownEntityIsAnErrorThatNamesIt) {
  EXPECT_THAT(error_of({.paths = {file("a.tmx", tmx_with("a&thinsp;b", kDoctype))}}),
              HasSubstr("a.tmx:3: '&thinsp;'"));
  EXPECT_THAT(error_of({.paths = {file("b.tmx", tmx_with("a&thinsp;b"))}}),
              HasSubstr("b.tmx:2: not well-formed TMX (undefined entity)"));
  // Inside a code it is removed anyway.
  EXPECT_THAT(open({.paths = {file("c.tmx", tmx_with("a<ph>&thinsp;</ph>b", kDoctype))}}),
              ElementsAre(Seen{"ab", "x"}));
}

TEST_F(TmxReaderTest, RejectsAnEntityThatRefersToAFile) {
  std::string text = tmx_with("a &f; b", "<!DOCTYPE tmx [<!ENTITY f SYSTEM '/etc/hostname'>]>");
  EXPECT_THAT(error_of({.paths = {file("a.tmx", text)}}),
              AllOf(HasSubstr("a.tmx:2: "), HasSubstr("'/etc/hostname'")));
}

TEST_F(TmxReaderTest, RejectsABillionLaughs) {
  std::string doctype = "<!DOCTYPE tmx [<!ENTITY e0 'ha'>";
  for (int i = 1; i <= 10; ++i) {
    doctype += format("<!ENTITY e{} '", i);
    for (int n = 0; n < 10; ++n) doctype += format("&e{};", i - 1);
    doctype += "'>";
  }
  EXPECT_THAT(error_of({.paths = {file("a.tmx", tmx_with("&e10;", doctype + "]>"))}}),
              HasSubstr("amplification"));
}

TEST_F(TmxReaderTest, CutsASegmentThatIsTooLong) {
  std::string text = tmx_with(std::string(5 * kMaxLineBytes, 'a'));
  std::vector<Seen> pairs = open({.paths = {file("a.tmx", text)}});
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].source.size(), kMaxLineBytes + 1);
  EXPECT_EQ(pairs[0].target, "x");
}

TEST_F(TmxReaderTest, RejectsACommentThatWouldFillTheMemory) {
  std::string small = tmx_with("a<!--" + std::string(1'000'000, 'c') + "-->b");
  EXPECT_THAT(open({.paths = {file("a.tmx", small)}}), ElementsAre(Seen{"ab", "x"}));
  std::string big = tmx_with("a<!--" + std::string(20'000'000, 'c') + "-->b");
  EXPECT_THAT(error_of({.paths = {file("b.tmx", big)}}), HasSubstr("b.tmx"));
}

// Expat remembers every open tag.
TEST_F(TmxReaderTest, RejectsTagsThatAreNestedTooDeeply) {
  auto nested = [](int depth) {
    std::string inside = "a";
    for (int i = 0; i < depth; ++i) inside = "<hi>" + inside + "</hi>";
    return tmx_with(inside);
  };
  EXPECT_THAT(open({.paths = {file("a.tmx", nested(50))}}), ElementsAre(Seen{"a", "x"}));
  EXPECT_THAT(error_of({.paths = {file("b.tmx", nested(200))}}), HasSubstr("nested"));
  std::string open_tags = "<tmx>";
  for (int i = 0; i < 100'000; ++i) open_tags += "<x>";
  EXPECT_THAT(error_of({.paths = {file("c.tmx", open_tags)}}), HasSubstr("nested"));
}

TEST_F(TmxReaderTest, ListsTheLanguagesIfNoUnitHasBoth) {
  CorpusSpec spec{.paths = {file("a.tmx", kTmx)}};
  EXPECT_THAT(error_of(spec, "en-US", "de"),
              AllOf(HasSubstr("a.tmx"), HasSubstr("3 <tu>"), HasSubstr("'en-US'"),
                    HasSubstr("DE, de, en, en-GB, fr.")));
  EXPECT_THAT(error_of(spec, "cs", "pl"), AllOf(HasSubstr("'cs'"), HasSubstr("'pl'")));
  EXPECT_THAT(error_of(spec, "en-GB", "de"), "no error");  // one unit is enough
  EXPECT_THAT(error_of({.paths = {file("b.tmx", "<tmx><tu><tuv><seg>a</seg></tuv></tu></tmx>")}}),
              HasSubstr(": none."));
}

TEST_F(TmxReaderTest, AFileWithoutAUnitIsAnError) {
  EXPECT_THAT(error_of({.paths = {file("a.tmx", "<html><p>Not found</p></html>")}}),
              HasSubstr("a.tmx: contains no <tu>; is it TMX?"));
}

}  // namespace
}  // namespace reigen
