// The last lines of short and long logs.
#include "report/live/log_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace reigen
