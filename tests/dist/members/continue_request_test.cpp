#include "dist/members/continue_request.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"

namespace reigen {
namespace {

TEST(ContinueRequest, ReachesAProcessThatAcceptsItAndNoOther) {
  const pid_t child = fork();
  if (child == 0) {
    accept_continue_requests();
    kill(getpid(), SIGSTOP);
    _exit(continue_requested() && !continue_requested() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  request_continue(child);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ContinueRequest, IsRefusedForAProcessThatItWouldKill) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_THROW(request_continue(child), ConfigError);
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);  // it still runs
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THROW(request_continue(child), ConfigError);  // there is no such process
}

}  // namespace
}  // namespace reigen
