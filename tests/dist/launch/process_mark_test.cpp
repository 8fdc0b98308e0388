#include "dist/launch/process_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace reigen {
namespace {

TEST(ProcessMark, OfAProcessThatHasEndedIsThatOfNoOther) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const std::string mark = process_mark(static_cast<uint64_t>(child));
  EXPECT_TRUE(may_still_run(mark));
  EXPECT_NE(mark, process_mark(static_cast<uint64_t>(getpid())));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(may_still_run(mark));
  EXPECT_EQ(process_mark(static_cast<uint64_t>(child)), "");
}

TEST(ProcessMark, OfAnEarlierBootHasEnded) {
  const std::string mark = process_mark(static_cast<uint64_t>(getpid()));
  ASSERT_TRUE(may_still_run(mark));
  std::string earlier = mark;
  const size_t boot = earlier.rfind(' ') + 1;
  earlier[boot] = earlier[boot] == '0' ? '1' : '0';
  EXPECT_FALSE(may_still_run(earlier));
}

TEST(ProcessMark, WithoutKnowledgeAProcessMayRun) {
  EXPECT_TRUE(may_still_run(""));
  EXPECT_TRUE(may_still_run("something else"));
  std::string elsewhere = process_mark(static_cast<uint64_t>(getpid()));
  elsewhere.insert(0, "different-");  // container
  EXPECT_TRUE(may_still_run(elsewhere));
}

}  // namespace
}  // namespace reigen
