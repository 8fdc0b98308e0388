// The last lines of short and long logs.
#include "report/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

TEST(LogTail, TheLastLinesComeInOrder) {
  TempDir folder;
  std::ofstream(folder.path("log.txt")) << "one\ntwo\nthree\n";
  EXPECT_THAT(log_tail(folder.path("log.txt"), 2), ElementsAre("two", "three"));
  EXPECT_THAT(log_tail(folder.path("log.txt"), 9), ElementsAre("one", "two", "three"));
}

TEST(LogTail, ALongLogIsReadFromItsEndInWholeLines) {
  TempDir folder;
  std::ofstream out(folder.path("log.txt"));
  for (int i = 0; i < 100'000; ++i) out << "line " << i << "\n";
  out.close();
  EXPECT_THAT(log_tail(folder.path("log.txt"), 2), ElementsAre("line 99998", "line 99999"));
  for (const std::string& line : log_tail(folder.path("log.txt"), 1'000'000)) {
    EXPECT_EQ(line.substr(0, 5), "line ");
  }
}

TEST(LogTail, AMissingFileHasNoLines) {
  TempDir folder;
  EXPECT_TRUE(log_tail(folder.path("none"), 5).empty());
}

TEST(LogTail, ALinkOrAFifoHasNoLines) {
  TempDir folder;
  std::ofstream(folder.path("precious")) << "one\n";
  std::filesystem::create_symlink(folder.path("precious"), folder.path("link"));
  EXPECT_TRUE(log_tail(folder.path("link"), 5).empty());
  ASSERT_EQ(mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(log_tail(folder.path("fifo"), 5).empty());
}

}  // namespace
}  // namespace reigen
