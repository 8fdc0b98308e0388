// Streams: one output line per input line, for any lines, windows and ends of file.
#include "decode/line_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "decode/small_translator.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string translated(const std::string& input, int64_t window, int64_t nbest = 1,
                       std::vector<size_t>* windows = nullptr) {
  TempDir dir;
  write_text(dir.path("in"), input);
  SmallTranslator small(small_vocabulary(), nbest, {.beam = 2, .max_ratio = 0.5});
  LineReader reader(ByteSource(dir.path("in")), kMostLineBytes);
  std::string out;
  translate_stream(
      reader, small.translator, {window, nbest > 1 ? LineFormat::kNbest : LineFormat::kText},
      [&](std::string_view text) {
        out += text;
        if (windows != nullptr) {
          windows->push_back(static_cast<size_t>(std::count(text.begin(), text.end(), '\n')));
        }
        return true;
      });
  return out;
}

size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(LineStream, WritesOneLinePerInputLineForAnyWindow) {
  std::string input;
  for (int i = 0; i < 57; ++i) input += i % 5 == 0 ? "\n" : format("the number {}\n", i);
  std::vector<size_t> windows;
  const std::string all = translated(input, 1000);
  EXPECT_EQ(lines_of(all), 57u);
  EXPECT_EQ(translated(input, 1), all);
  EXPECT_EQ(translated(input, 10, 1, &windows), all);
  EXPECT_THAT(windows, ElementsAre(10, 10, 10, 10, 10, 7));
}

TEST(LineStream, WritesOneLinePerInputLineWhereverTheInputEnds) {
  EXPECT_EQ(translated("", 10), "");
  EXPECT_EQ(lines_of(translated("\n", 10)), 1u);
  EXPECT_EQ(lines_of(translated("the", 10)), 1u);
  EXPECT_EQ(translated("the\nnumber", 10), translated("the\nnumber\n", 10));
  EXPECT_EQ(translated("the\r\n\r\nnumber\r\n", 10), translated("the\n\nnumber\n", 10));
  EXPECT_EQ(lines_of(translated(std::string("a\0b\n\0\n\xFF\n\xE2\x80\xA8\n\x0C\n", 14), 10)), 5u);
}

TEST(LineStream, TranslatesAllOfALineLongerThanTheLimitOfCorpora) {
  std::string line;
  while (line.size() <= kMaxLineBytes) line += "auf die Zahl 12 folgt größer the number. ";
  const std::string tail = "by number 7";
  TempDir dir;
  write_text(dir.path("in"), line + tail + "\nthe\n");
  SmallTranslator small(small_vocabulary(), 1, {.beam = 1, .max_ratio = 0.1});
  LineReader reader(ByteSource(dir.path("in")), kMostLineBytes);
  std::string out;
  translate_stream(reader, small.translator, {}, [&](std::string_view text) {
    out += text;
    return true;
  });
  EXPECT_EQ(lines_of(out), 2u);
  EXPECT_EQ(small.translator.counts().cut, 1u);
  std::vector<uint32_t> ids;
  Encoder encoder(small_vocabulary());
  encoder.encode(line + tail, ids);
  encoder.encode("the", ids);
  // Every piece went in, and an end of sentence for each fragment of at most 11 pieces.
  EXPECT_GT(small.translator.counts().source_tokens, ids.size() + ids.size() / 11);
}

TEST(LineStream, PrintsBestListsAsMosesDoes) {
  const std::string out = translated("the number\n\nby\n", 2, 2);
  EXPECT_THAT(out, ::testing::MatchesRegex("0 \\|\\|\\| .* \\|\\|\\| -[0-9.]+\n(.|\n)*"));
  EXPECT_THAT(out, HasSubstr("\n1 |||  ||| 0.000000\n"));
  EXPECT_THAT(out, HasSubstr("\n2 ||| "));
}

TEST(LineStream, StopsWhenTheReaderHasClosedTheOutput) {
  TempDir dir;
  write_text(dir.path("in"), "the\nnumber\nis\n");
  for (int64_t window : {1, 2}) {
    SmallTranslator small(small_vocabulary());
    LineReader reader(ByteSource(dir.path("in")), kMostLineBytes);
    int windows = 0;
    translate_stream(reader, small.translator, {.window = window}, [&](std::string_view) {
      ++windows;
      return windows < 2;
    });
    EXPECT_EQ(windows, 2);
  }
}

// The search waits for lines that never come.
TEST(LineStream, StopsWhenTheOutputIsClosedWhileTheInputIsOpen) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::string_view lines = "the\nnumber\n";
  ASSERT_EQ(::write(ends[1], lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  SmallTranslator small(small_vocabulary());
  LineReader reader(ByteSource(ends[0], "pipe"), kMostLineBytes);
  int windows = 0;
  translate_stream(reader, small.translator, {.window = 2}, [&](std::string_view text) {
    EXPECT_EQ(lines_of(std::string(text)), 2u);
    ++windows;
    return false;
  });
  EXPECT_EQ(windows, 1);
  for (int end : ends) ::close(end);
}

TEST(LineStream, ReportsAnErrorOfTheOutput) {
  TempDir dir;
  write_text(dir.path("in"), "the\nnumber\nis\nfollowed\nby\n");
  for (int64_t window : {1, 2}) {
    SmallTranslator small(small_vocabulary());
    LineReader reader(ByteSource(dir.path("in")), kMostLineBytes);
    int windows = 0;
    EXPECT_THROW(translate_stream(reader, small.translator, {.window = window},
                                  [&](std::string_view) {
                                    if (++windows == 2) throw IoError("disk full");
                                    return true;
                                  }),
                 IoError);
    EXPECT_EQ(windows, 2);
  }
}

TEST(LineStream, SearchesNoFurtherThanASlowOutputAllows) {
  TempDir dir;
  std::string input;
  for (int i = 0; i < 100; ++i) input += format("the number {}\n", i);
  write_text(dir.path("in"), input);
  // One sentence at a time.
  SmallTranslator small(small_vocabulary(), 1, {.beam = 1, .max_ratio = 0.5, .batch_tokens = 1});
  LineReader reader(ByteSource(dir.path("in")), kMostLineBytes);
  std::atomic<uint64_t> found = 0;
  constexpr uint64_t kMost = 2 * (1 + 4 + 1);  // windows in the sink, that wait, and the next one
  uint64_t windows = 0;
  translate_stream(
      reader, small.translator, {.window = 2},
      [&](std::string_view) {
        if (windows++ == 0) {
          while (found < kMost) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          EXPECT_EQ(found, kMost);
        }
        return true;
      },
      [&](uint64_t sentences) { found = sentences; });
  EXPECT_EQ(windows, 50u);
  EXPECT_EQ(found, 100u);
}

TEST(LineStream, WritesAllWindowsBeforeAnErrorOfTheInput) {
  TempDir dir;
  const std::string path = dir.path("in");
  const std::string lines = "the\nnumber\nis\nfollowed\nby\nnumber\n";
  write_text(path, lines);
  const auto size = static_cast<off_t>(lines.size() + kMostLineBytes) + 100;
  ASSERT_EQ(truncate(path.c_str(), size), 0);  // zeros
  SmallTranslator small(small_vocabulary());
  LineReader reader(ByteSource(path), kMostLineBytes);
  size_t written = 0;
  EXPECT_THROW(translate_stream(reader, small.translator, {.window = 2},
                                [&](std::string_view text) {
                                  written += lines_of(std::string(text));
                                  return true;
                                }),
               DataError);
  EXPECT_EQ(written, 6u);
}

TEST(LineStream, WritesAllWindowsBeforeATruncatedBlock) {
  TempDir dir;
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += format("{}\n", mix64(static_cast<uint64_t>(i)));
  const std::string path = dir.path("in.gz");
  write_text(dir.path("in"), lines);
  ASSERT_EQ(std::system(format("gzip {}", dir.path("in")).c_str()), 0);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1000);
  SmallTranslator small(small_vocabulary(), 1, {.beam = 1, .max_ratio = 0.01});
  LineReader reader(ByteSource(path), kMostLineBytes);
  size_t read = 0;
  LineReader alone(ByteSource(path), kMostLineBytes);
  auto read_all = [&] {
    std::string line;
    while (alone.next(line)) ++read;
  };
  EXPECT_THROW(read_all(), DataError);
  size_t written = 0;
  EXPECT_THROW(translate_stream(reader, small.translator, {.window = 1000},
                                [&](std::string_view text) {
                                  written += lines_of(std::string(text));
                                  return true;
                                }),
               DataError);
  EXPECT_EQ(written, read / 1000 * 1000);
  EXPECT_GT(written, 10'000u);
}

TEST(LineStream, NamesALineAboveTheByteLimit) {
  TempDir dir;
  const std::string path = dir.path("in");
  write_text(path, "the\n");
  ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(kMostLineBytes) + 100), 0);  // zeros
  SmallTranslator small(small_vocabulary());
  LineReader reader(ByteSource(path), kMostLineBytes);
  try {
    translate_stream(reader, small.translator, {}, [](std::string_view) { return true; });
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("line 2"));
    EXPECT_THAT(e.what(), HasSubstr("67.1 MB"));
  }
}

}  // namespace
}  // namespace reigen
