// Compressed input in every kind, whole and damaged, made by the real tools.
#include "data/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

std::string read_all(const std::string& path) {
  ByteSource source(path);
  std::string all;
  char buffer[1000];
  for (size_t got; (got = source.read(buffer, sizeof buffer)) > 0;) all.append(buffer, got);
  return all;
}

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += format("line {} of a file {}\n", i, i * 7919 % 1000);
  return text;
}

struct Packer {
  const char* extension;
  const char* command;
};

class Compressed : public ::testing::TestWithParam<Packer> {
 protected:
  std::string pack(const std::string& text) {
    write_text(dir_.path("a"), text);
    std::string packed = dir_.path(format("a.{}", GetParam().extension));
    shell(format("{} < {} > {}", GetParam().command, dir_.path("a"), packed));
    return packed;
  }
  TempDir dir_;
};

TEST_P(Compressed, IsReadWhole) { EXPECT_EQ(read_all(pack(many_lines())), many_lines()); }

TEST_P(Compressed, IsReadWholeWhenTwoFilesWereJoined) {
  std::string one = pack("first\n");
  shell(format("cp {} {}", one, dir_.path("one")));
  std::string two = pack("second\n");
  shell(format("cat {} {} > {}", dir_.path("one"), two, dir_.path("both")));
  EXPECT_EQ(read_all(dir_.path("both")), "first\nsecond\n");
}

TEST_P(Compressed, IsAnErrorWhenTruncatedAnywhere) {
  std::string packed = pack(many_lines());
  std::string bytes = read_file(packed);
  for (double share : {0.1, 0.5, 0.99}) {
    write_text(dir_.path("cut"),
               bytes.substr(0, static_cast<size_t>(share * static_cast<double>(bytes.size()))));
    EXPECT_THROW(read_all(dir_.path("cut")), DataError) << share;
  }
  write_text(dir_.path("cut"), bytes.substr(0, bytes.size() - 1));
  try {
    read_all(dir_.path("cut"));
    FAIL() << "one byte short went unnoticed";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr(dir_.path("cut")));
    EXPECT_THAT(e.what(), HasSubstr("too early"));
  }
}

TEST_P(Compressed, IsAnErrorWhenDamaged) {
  std::string packed = pack(many_lines());
  std::string bytes = read_file(packed);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  write_text(dir_.path("bad"), bytes);
  EXPECT_THROW(read_all(dir_.path("bad")), DataError);
}

TEST_P(Compressed, IsDescribedByItsRawBytes) {
  std::string packed = pack(many_lines());
  ByteSource source(packed);
  InputFile file = source.describe();
  EXPECT_EQ(file.bytes, file_size(packed));
  EXPECT_EQ(file.sha256, sha256_of_file(packed));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, Compressed,
                         ::testing::Values(Packer{"plain.gz", "gzip"},
                                           Packer{"zst", "zstd -q --check"}, Packer{"xz", "xz"}),
                         [](const auto& info) {
                           return std::string(info.param.command).substr(0, 2);
                         });

TEST(ByteSource, NamesAMissingFile) {
  EXPECT_THROW(ByteSource("/no/such/file"), DataError);
  EXPECT_THROW(read_all("/"), DataError);  // a directory
}

std::vector<std::string> lines_of(const std::string& text) {
  TempDir dir;
  write_text(dir.path("t"), text);
  LineReader reader(dir.path("t"));
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  EXPECT_EQ(reader.lines(), lines.size());
  return lines;
}

TEST(LineReader, HandlesEveryWayALineCanEnd) {
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

TEST(LineReader, TakesLinesLongerThanItsBuffer) {
  std::string big(300'000, 'x');
  EXPECT_THAT(lines_of(big + "\nshort\n"), ElementsAre(big, "short"));
}

}  // namespace
}  // namespace reigen
