// Compressed input in every format, complete and damaged, made by the real tools.
#include "data/input/byte_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "data/input/line_reader.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::AllOf;
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
  size_t magic;  // bytes that identify the format; a shorter file is read as text
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

TEST_P(Compressed, IsReadWholeIfTwoFilesWereConcatenated) {
  std::string one = pack("first\n");
  shell(format("cp {} {}", one, dir_.path("one")));
  std::string two = pack("second\n");
  shell(format("cat {} {} > {}", dir_.path("one"), two, dir_.path("both")));
  EXPECT_EQ(read_all(dir_.path("both")), "first\nsecond\n");
}

TEST_P(Compressed, IsAnErrorWhenTruncatedAnywhere) {
  std::string bytes = read_file(pack("one line\nanother line, and then one more line\n"));
  ASSERT_LT(bytes.size(), 200u);
  for (size_t size = GetParam().magic; size < bytes.size(); ++size) {
    write_text(dir_.path("cut"), bytes.substr(0, size));
    EXPECT_THAT(error_of(dir_.path("cut")),
                AllOf(HasSubstr(dir_.path("cut")), HasSubstr("too early")))
        << size << " of " << bytes.size() << " bytes";
  }
}

TEST_P(Compressed, IsAnErrorWhenALargeFileIsTruncated) {
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

TEST(ByteSource, AMissingFileIsAnErrorThatNamesTheFile) {
  EXPECT_THROW(ByteSource("/no/such/file"), DataError);
  EXPECT_THROW(read_all("/"), DataError);  // a directory
}

TEST(ByteSource, AcceptsZerosAfterGzipDataAndNothingElse) {
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

TEST(ByteSource, ReadsTheOutputOfPzstd) {
  TempDir dir;
  write_text(dir.path("a"), many_lines());
  shell(format("pzstd -q -p 2 -o {0}.zst {0}", dir.path("a")));
  std::string packed = read_file(dir.path("a.zst"));
  ASSERT_EQ(packed.substr(1, 3), "\x2a\x4d\x18") << "pzstd no longer writes skippable frames";
  EXPECT_EQ(read_all(dir.path("a.zst")), many_lines());
}

TEST(ByteSource, NamesTheToolThatUnpacksAnUnsupportedFormat) {
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
    alarm(60);  // a bug may wait for the pipe forever
  }
  ~Pipe() override { alarm(0); }

  TempDir dir_;
  std::string fifo_ = dir_.path("fifo");
};

TEST_F(Pipe, IsReadAndDescribedLikeAFileForAnyBlockSize) {
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

TEST_F(Pipe, IsReadThroughItsDescriptorLikeDevStdin) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "a\nb\n", 4), 4);
  close(ends[1]);
  EXPECT_EQ(read_all(format("/proc/self/fd/{}", ends[0])), "a\nb\n");
  close(ends[0]);
}

// Exits with 130 if Ctrl-C was noticed.
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

TEST_F(Pipe, WaitingForItDoesNotBlockCtrlC) {
  EXPECT_EXIT(read_until_interrupted(fifo_), ::testing::ExitedWithCode(130), "")
      << "no process has opened the pipe for writing";
  int writer = open(fifo_.c_str(), O_RDWR);
  ASSERT_GE(writer, 0);
  EXPECT_EXIT(read_until_interrupted(fifo_), ::testing::ExitedWithCode(130), "")
      << "the writer is silent";
  close(writer);
}

TEST(ByteSource, ReadsAnOpenFileFromItsPositionAndLeavesItOpen) {
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

TEST(ByteSource, AnInvalidDescriptorIsAnErrorWithItsName) {
  try {
    ByteSource source(-1, "standard input");
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("standard input"));
  }
}

TEST(ByteSource, ReturnsTypedLinesOfATerminalImmediately) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const int typed = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(typed, 0);
  ASSERT_EQ(write(terminal, "Hi\n", 3), 3);  // fewer bytes than the magic of a compressed file
  LineReader reader(ByteSource(typed, "terminal"));
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "Hi");
  close(typed);
  close(terminal);
}

}  // namespace
}  // namespace reigen
