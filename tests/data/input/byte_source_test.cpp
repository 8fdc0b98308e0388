// Compressed input in every kind, whole and damaged, made by the real tools.
#include "data/input/byte_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::AllOf;
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

std::string error_of(const std::string& path) {
  try {
    read_all(path);
  } catch (const DataError& e) {
    return e.what();
  }
  return "no error";
}

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += format("line {} of a file {}\n", i, i * 7919 % 1000);
  return text;
}

struct Packer {
  const char* extension;
  const char* command;
  size_t mark;  // bytes that tell the kind; with fewer it can only be taken as text
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
  std::string bytes = read_file(pack("one line\nanother line, and then one more line\n"));
  ASSERT_LT(bytes.size(), 200u);
  for (size_t size = GetParam().mark; size < bytes.size(); ++size) {
    write_text(dir_.path("cut"), bytes.substr(0, size));
    EXPECT_THAT(error_of(dir_.path("cut")),
                AllOf(HasSubstr(dir_.path("cut")), HasSubstr("too early")))
        << size << " of " << bytes.size() << " bytes";
  }
}

TEST_P(Compressed, IsAnErrorWhenTruncatedInTheMiddleOfMuchText) {
  std::string bytes = read_file(pack(many_lines()));
  write_text(dir_.path("cut"), bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(error_of(dir_.path("cut")), HasSubstr("too early"));
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
                         ::testing::Values(Packer{"plain.gz", "gzip", 2},
                                           Packer{"zst", "zstd -q --check", 4},
                                           Packer{"xz", "xz", 6}),
                         [](const auto& info) {
                           return std::string(info.param.command).substr(0, 2);
                         });

TEST(ByteSource, NamesAMissingFile) {
  EXPECT_THROW(ByteSource("/no/such/file"), DataError);
  EXPECT_THROW(read_all("/"), DataError);  // a directory
}

TEST(ByteSource, TakesZerosBehindGzipAsGzipDoesAndNothingElse) {
  TempDir dir;
  write_text(dir.path("a"), "text\n");
  shell(format("gzip {}", dir.path("a")));
  std::string packed = read_file(dir.path("a.gz"));
  for (size_t zeros : {size_t{1}, size_t{500}, size_t{1'000'000}}) {
    write_text(dir.path("padded.gz"), packed + std::string(zeros, '\0'));
    shell(format("gzip -t {}", dir.path("padded.gz")));
    EXPECT_EQ(read_all(dir.path("padded.gz")), "text\n") << zeros;
  }
  for (const std::string& tail :
       {std::string("x"), std::string(600, '\0') + "x", std::string(1'000'000, '\0') + packed}) {
    write_text(dir.path("bad.gz"), packed + tail);
    EXPECT_THAT(error_of(dir.path("bad.gz")), HasSubstr("bad.gz: gzip data"));
  }
}

TEST(ByteSource, ReadsWhatPzstdPacked) {
  TempDir dir;
  write_text(dir.path("a"), many_lines());
  shell(format("pzstd -q -p 2 -o {0}.zst {0}", dir.path("a")));
  std::string packed = read_file(dir.path("a.zst"));
  ASSERT_EQ(packed.substr(1, 3), "\x2a\x4d\x18") << "pzstd no longer writes skippable frames";
  EXPECT_EQ(read_all(dir.path("a.zst")), many_lines());
}

TEST(ByteSource, SaysHowToUnpackWhatItDoesNotRead) {
  TempDir dir;
  write_text(dir.path("a"), "text\n");
  write_text(dir.path("empty"), "");
  shell(format("bzip2 {} {}", dir.path("a"), dir.path("empty")));
  EXPECT_THAT(error_of(dir.path("a.bz2")), HasSubstr("a.bz2: is bzip2"));
  EXPECT_THAT(error_of(dir.path("a.bz2")), HasSubstr("bunzip2"));
  EXPECT_THAT(error_of(dir.path("empty.bz2")), HasSubstr("is bzip2"));
  write_text(dir.path("a.zip"), std::string_view("PK\x03\x04\x14\0\0\0\0\0\0\0", 12));
  EXPECT_THAT(error_of(dir.path("a.zip")), HasSubstr("unzip"));
  for (const char* text : {"BZh", "BZh9 is how bzip2 begins", "PKW"}) {
    write_text(dir.path("text"), text);
    EXPECT_EQ(read_all(dir.path("text")), text);
  }
}

class Pipe : public ::testing::Test {
 protected:
  Pipe() {
    EXPECT_EQ(mkfifo(fifo_.c_str(), 0600), 0);
    alarm(60);  // a pipe that is read wrongly waits for ever
  }
  ~Pipe() override { alarm(0); }

  TempDir dir_;
  std::string fifo_ = dir_.path("fifo");
};

TEST_F(Pipe, IsReadAndDescribedLikeAFileHoweverItsBytesCome) {
  write_text(dir_.path("a"), many_lines());
  shell(format("xz -k {}", dir_.path("a")));
  std::string packed = dir_.path("a.xz");
  shell(format("(head -c 1 {0}; sleep 0.2; tail -c +2 {0}) > {1} &", packed, fifo_));
  ByteSource source(fifo_);
  std::string all(many_lines().size() + 1, '\0');
  size_t size = 0;
  for (size_t got; (got = source.read(&all[size], all.size() - size)) > 0;) size += got;
  all.resize(size);
  EXPECT_EQ(all, many_lines());
  InputFile file = source.describe();
  EXPECT_EQ(file.path, fifo_);
  EXPECT_EQ(file.bytes, file_size(packed));
  EXPECT_EQ(file.sha256, sha256_of_file(packed));
}

TEST_F(Pipe, IsReadThroughItsDescriptorAsDevStdinIs) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "a\nb\n", 4), 4);
  close(ends[1]);
  EXPECT_EQ(read_all(format("/proc/self/fd/{}", ends[0])), "a\nb\n");
  close(ends[0]);
}

// Ends the process: 130 when Ctrl-C was seen.
[[noreturn]] void read_until_interrupted(const std::string& path) {
  alarm(20);
  catch_interrupts();
  shell(format("(sleep 0.3; kill -INT {}) &", getpid()));
  try {
    read_all(path);
  } catch (const Error& e) {
    _exit(static_cast<int>(e.code()));
  }
  _exit(0);
}

TEST_F(Pipe, DoesNotHoldUpCtrlC) {
  EXPECT_EXIT(read_until_interrupted(fifo_), ::testing::ExitedWithCode(130), "")
      << "nobody has opened the pipe for writing";
  int writer = open(fifo_.c_str(), O_RDWR);
  ASSERT_GE(writer, 0);
  EXPECT_EXIT(read_until_interrupted(fifo_), ::testing::ExitedWithCode(130), "")
      << "the writer is silent";
  close(writer);
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
  std::string big(200'000, 'x');
  EXPECT_THAT(lines_of(big + "\nshort\n"), ElementsAre(big, "short"));
}

TEST(LineReader, KeepsOneByteMoreThanTheMostOfALineThatIsTooLong) {
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

TEST(LineReader, TakesBoundedMemoryForOneEndlessLine) {
  TempDir dir;
  shell(format("head -c 64M /dev/zero | gzip -1 > {}", dir.path("zeros.gz")));
  LineReader reader(dir.path("zeros.gz"));
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.size(), kMaxLineBytes + 1);
  EXPECT_LT(line.capacity(), 3 * kMaxLineBytes);
  EXPECT_FALSE(reader.next(line));
}

TEST(LineReader, RefusesWideTextAndSaysHowToConvertIt) {
  TempDir dir;
  write_text(dir.path("a"), "eins\nzwei\n");
  for (const char* kind : {"UTF-16", "UTF-32"}) {
    for (const char* order : {"LE", "BE"}) {
      std::string wide = dir.path(format("{}{}", kind, order));
      shell(format("(printf '\\357\\273\\277'; cat {0}) | iconv -f UTF-8 -t {1}{2} > {3}",
                   dir.path("a"), kind, order, wide));
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

TEST(ByteSource, ReadsAnOpenFileFromWhereItStandsAndLeavesItOpen) {
  TempDir dir;
  write_text(dir.path("text"), "first\nsecond\nthird\n");
  const int fd = open(dir.path("text").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(lseek(fd, 6, SEEK_SET), 6);
  {
    LineReader reader(ByteSource(fd, "standard input"));
    std::string line;
    ASSERT_TRUE(reader.next(line));
    EXPECT_EQ(line, "second");
    EXPECT_EQ(reader.source().path(), "standard input");
  }
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
  close(fd);
}

TEST(ByteSource, NamesAnOpenFileThatIsNone) {
  try {
    ByteSource source(-1, "standard input");
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("standard input"));
  }
}

TEST(ByteSource, AnswersATerminalAsItIsTyped) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int typed = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(typed, 0);
  ASSERT_EQ(write(terminal, "Hi\n", 3), 3);  // fewer bytes than a compressed file's mark
  LineReader reader(ByteSource(typed, "terminal"));
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "Hi");
  close(typed);
  close(terminal);
}

TEST(LineReader, KeepsALineWholeUpToTheLimitGiven) {
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
