// Lines of any ending, length and encoding, plain and compressed.
#include "data/input/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  TempDir dir;
  write_text(dir.path("t"), text);
  LineReader reader(dir.path("t"));
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  EXPECT_EQ(reader.lines(), lines.size());
  return lines;
}

TEST(LineReader, AcceptsEveryLineEnding) {
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
  EXPECT_THAT(lines_of("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of("a\r\nb"), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of("\n\nx"), ElementsAre("", "", "x"));
}

TEST(LineReader, DropsAByteOrderMarkOnlyAtTheStart) {
  EXPECT_THAT(lines_of("\xEF\xBB\xBF"
                       "a\n\xEF\xBB\xBF"
                       "b\n"),
              ElementsAre("a",
                          "\xEF\xBB\xBF"
                          "b"));
}

TEST(LineReader, ReadsLinesLongerThanItsBuffer) {
  std::string big(200'000, 'x');
  EXPECT_THAT(lines_of(big + "\nshort\n"), ElementsAre(big, "short"));
}

TEST(LineReader, CutsALongLineOneByteAboveTheLimit) {
  for (const std::string& mark : {std::string(), std::string("\xEF\xBB\xBF")}) {
    for (size_t size : {kMaxLineBytes, kMaxLineBytes + 1, kMaxLineBytes + 5, 9 * kMaxLineBytes}) {
      for (std::string_view end : {"x\n", "\r\n", "\r\r\n"}) {
        std::string line = std::string(size - 1, 'x').append(end);
        std::string kept = line.substr(0, line.size() - (end.ends_with("\r\n") ? 2 : 1));
        if (kept.size() > kMaxLineBytes) kept.resize(kMaxLineBytes + 1);
        // Not ElementsAre: a failure would print megabytes.
        EXPECT_TRUE(lines_of(mark + line + "next\n") == (std::vector<std::string>{kept, "next"}))
            << size;
      }
    }
  }
}

TEST(LineReader, UsesBoundedMemoryForAnEndlessLine) {
  TempDir dir;
  ASSERT_EQ(
      std::system(format("head -c 64M /dev/zero | gzip -1 > {}", dir.path("zeros.gz")).c_str()), 0);
  LineReader reader(dir.path("zeros.gz"));
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.size(), kMaxLineBytes + 1);
  EXPECT_LT(line.capacity(), 3 * kMaxLineBytes);
  EXPECT_FALSE(reader.next(line));
}

TEST(LineReader, RejectsUtf16AndUtf32AndNamesTheConversion) {
  TempDir dir;
  write_text(dir.path("a"), "eins\nzwei\n");
  for (const char* kind : {"UTF-16", "UTF-32"}) {
    for (const char* order : {"LE", "BE"}) {
      std::string wide = dir.path(format("{}{}", kind, order));
      const std::string convert =
          format("(printf '\\357\\273\\277'; cat {0}) | iconv -f UTF-8 -t {1}{2} > {3}",
                 dir.path("a"), kind, order, wide);
      ASSERT_EQ(std::system(convert.c_str()), 0);
      try {
        std::string line;
        LineReader(wide).next(line);
        FAIL() << wide << " was read as text";
      } catch (const DataError& e) {
        EXPECT_THAT(e.what(), HasSubstr(format("is {} text", kind))) << wide;
        EXPECT_THAT(e.what(), HasSubstr(format("iconv -f {} -t UTF-8", kind)));
      }
    }
  }
}

TEST(LineReader, HonoursTheLimitOfItsCaller) {
  TempDir dir;
  const std::string line_text(kMaxLineBytes + 1000, 'x');
  write_text(dir.path("text"), line_text + "\n" + std::string(1000, 'y') + "\n");
  LineReader whole(ByteSource(dir.path("text")), kMaxLineBytes * 2);
  std::string line;
  ASSERT_TRUE(whole.next(line));
  EXPECT_EQ(line, line_text);
  LineReader cut(ByteSource(dir.path("text")), 100);
  ASSERT_TRUE(cut.next(line));
  EXPECT_EQ(line.size(), 101u);
  ASSERT_TRUE(cut.next(line));
  EXPECT_EQ(line, std::string(101, 'y'));
}

}  // namespace
}  // namespace reigen
