// Files of pairs in every format, and the recognition of the format.
#include "data/input/pair_reader.h"

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

class PairReaderTest : public ReaderTest {};

TEST_F(PairReaderTest, PairsTwoTextFilesLineByLine) {
  CorpusSpec spec{.paths = {file("a.en", "one\ntwo\n"), file("a.de", "eins\nzwei")}};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}, Seen{"two", "zwei"}));
}

TEST_F(PairReaderTest, DifferentLineCountsAreAnErrorThatNamesBoth) {
  CorpusSpec spec{.paths = {file("a.en", "1\n2\n3\n"), file("a.de", "1\n2\n3\n4\n5\n")}};
  try {
    open(spec);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("a.en has 3 lines"));
    EXPECT_THAT(e.what(), HasSubstr("a.de has 5"));
  }
}

TEST_F(PairReaderTest, ReadsTheFirstTwoColumnsOfTsvAndMarksLinesWithOne) {
  CorpusSpec spec{.paths = {file("a.tsv", "one\teins\nonly\nthree\tdrei\t0.7\n\tempty\n")}};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}, Seen{"only", "", true},
                                      Seen{"three", "drei"}, Seen{"", "empty"}));
}

TEST_F(PairReaderTest, SwapsSidesOnRequest) {
  CorpusSpec spec{.paths = {file("a.tsv", "eins\tone\n")}, .swap = true};
  EXPECT_THAT(open(spec), ElementsAre(Seen{"one", "eins"}));
}

TEST_F(PairReaderTest, RecognisesTheFormatByNameAlsoIfCompressed) {
  file("a.tsv", "one\teins\n");
  ASSERT_EQ(std::system(format("gzip -f {}", dir_.path("a.tsv")).c_str()), 0);
  EXPECT_THAT(open({.paths = {dir_.path("a.tsv.gz")}}), ElementsAre(Seen{"one", "eins"}));
  EXPECT_THAT(open({.paths = {file("b.txt", "x\ty\n")}, .format = "tsv"}),
              ElementsAre(Seen{"x", "y"}));
  EXPECT_THROW(open({.paths = {file("c.txt", "x\ty\n")}}), ConfigError);
}

TEST_F(PairReaderTest, ATooLongTsvLineStaysTooLongForAnyPositionOfItsTab) {
  std::string half(kMaxLineBytes * 3 / 4, 'x');
  std::string big(2 * kMaxLineBytes, 'x');
  std::vector<Seen> pairs =
      open({.paths = {file("a.tsv", half + "\t" + half + "\n" + big + "\n" + "a\t" + big + "\n" +
                                        "b\tc\t" + big + "\nd\te\n")}});
  ASSERT_EQ(pairs.size(), 5u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_GT(std::max(pairs[i].source.size(), pairs[i].target.size()), kMaxLineBytes) << i;
    EXPECT_FALSE(pairs[i].malformed);
  }
  EXPECT_EQ(pairs[3], (Seen{"b", "c"}));  // both columns are whole
  EXPECT_EQ(pairs[4], (Seen{"d", "e"}));
}

TEST_F(PairReaderTest, RejectsTwoFilesOfPairsAsOneCorpus) {
  CorpusSpec spec{.paths = {file("a.tsv", "1\n"), file("b.tsv.gz", "2\n")}};
  EXPECT_THAT(error_of(spec), AllOf(HasSubstr("config: "), HasSubstr("give --train twice")));
  spec.format = "text";
  EXPECT_THAT(open(spec), ElementsAre(Seen{"1", "2"}));
  // "mo" was the code of Moldovan.
  EXPECT_THAT(open({.paths = {file("a.ro", "unu\n"), file("a.mo", "один\n")}}),
              ElementsAre(Seen{"unu", "один"}));
}

TEST_F(PairReaderTest, RejectsSwapForTmx) {
  CorpusSpec spec{.name = "news", .paths = {file("a.tmx", "")}, .swap = true};
  EXPECT_THAT(error_of(spec), AllOf(HasSubstr("config: corpus news: swap=true"),
                                    HasSubstr("'en' is read as source and 'de' as target"),
                                    HasSubstr("remove swap")));
}

TEST_F(PairReaderTest, ReportsBzip2BeforeTheFormatOfTheContent) {
  file("a.tsv", "one\teins\n");
  ASSERT_EQ(std::system(format("bzip2 {}", dir_.path("a.tsv")).c_str()), 0);
  EXPECT_THAT(error_of({.paths = {dir_.path("a.tsv.bz2")}}), HasSubstr("bunzip2"));
}

}  // namespace
}  // namespace reigen
