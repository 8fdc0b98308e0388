// Files that only grow, on disks that fill up and get space again: no byte lost or repeated.
#include "base/file/append_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace reigen {
namespace {

using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(AppendFile, CreatesItsFolderAndMakesEveryAppendVisibleImmediately) {
  TempDir dir;
  const std::string path = dir.path("run/measurements/file");
  AppendFile file(path);
  file.append("one\n");
  EXPECT_EQ(read_file(path), "one\n");
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  EXPECT_TRUE(file.flush());
}

TEST(AppendFile, ContinuesAnExistingFile) {
  TempDir dir;
  write_text(dir.path("file"), "before\n");
  AppendFile file(dir.path("file"));
  file.append("after\n");
  EXPECT_EQ(read_file(dir.path("file")), "before\nafter\n");
}

TEST(AppendFile, BuffersBytesWhileTheDiskIsFullAndWritesThemLaterInOrder) {
  TempDir dir;
  const std::string path = dir.path("file");
  std::string expected;
  CaptureStderr();
  {
    AppendFile file(path);
    FullDisk disk(1000);
    for (int i = 0; i < 300; ++i) {
      if (i == 100) disk.set(1345);  // some space, not enough for the waiting bytes
      if (i == 200) disk.set(1 << 20);
      const std::string line = format("line {} of many\n", i);
      expected += line;
      file.append(line);
      const std::string there = read_file(path);
      ASSERT_EQ(there, expected.substr(0, there.size()));
      ASSERT_EQ(there.size() + file.waiting(), expected.size());
      if (i == 99) {
        ASSERT_EQ(there.size(), 1000u);  // filled to the last byte, in the middle of a line
      }
      if (i == 199) {
        ASSERT_FALSE(file.flush());
      }
    }
    EXPECT_TRUE(file.flush());
    EXPECT_EQ(file.waiting(), 0u);
  }
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(read_file(path), expected);
  EXPECT_EQ(count_of("cannot write", said), 1u) << said;
  EXPECT_EQ(count_of("can be written again", said), 1u) << said;
  EXPECT_THAT(said, HasSubstr(path));
}

TEST(AppendFile, WarnsAgainWhenTheDiskFillsASecondTime) {
  TempDir dir;
  std::string expected;
  CaptureStderr();
  {
    AppendFile file(dir.path("file"));
    FullDisk disk(10'000);
    for (const auto& [letter, limit] :
         {std::pair{'a', 10'000}, {'b', 50'000}, {'c', 20'000}, {'d', 50'000}}) {
      disk.set(limit);
      file.append(std::string(11'000, letter));
      expected += std::string(11'000, letter);
    }
  }
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(read_file(dir.path("file")), expected);
  EXPECT_EQ(count_of("cannot write", said), 2u) << said;
  EXPECT_EQ(count_of("can be written again", said), 2u) << said;
}

TEST(AppendFile, WarnsOfTheReasonAndTheNumberOfLostBytes) {
  TempDir dir;
  write_text(dir.path("file"), std::string(2000, 'x'));
  CaptureStderr();
  {
    FullDisk disk(2000);
    AppendFile file(dir.path("file"));
    file.append("abc");
    EXPECT_FALSE(file.flush());
  }
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("File too large"));
  EXPECT_THAT(said, HasSubstr("3 B could not be written"));
}

TEST(AppendFile, AFileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  TempDir dir;
  write_text(dir.path("plain"), "");
  try {
    AppendFile file(dir.path("plain/below/file"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr(dir.path("plain/below")));
  }
}

TEST(AppendFile, WritesWholeAppendsFromManyThreads) {
  TempDir dir;
  AppendFile file(dir.path("file"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&file, t] {
      for (int i = 0; i < 200; ++i) file.append(std::string(50, static_cast<char>('a' + t)) + "\n");
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string text = read_file(dir.path("file"));
  ASSERT_EQ(text.size(), 4 * 200 * 51u);
  for (size_t at = 0; at < text.size(); at += 51) {
    ASSERT_EQ(text.substr(at, 51), std::string(50, text[at]) + "\n");
  }
}

}  // namespace
}  // namespace reigen
