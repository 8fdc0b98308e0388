// The descheduled time of a child process that is stopped for a while.
#include "observe/sample/deschedule_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

namespace reigen {
namespace {

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(DescheduleWatch, CountsTheTimeAProcessIsStopped) {
  int from_child[2];
  ASSERT_EQ(pipe(from_child), 0);
  const pid_t child = fork();
  if (child == 0) {
    DescheduleWatch watch;
    char ready = 'r';
    bool ok = write(from_child[1], &ready, 1) == 1;
    sleep_ms(900);
    const double descheduled = watch.take();
    ok = ok && write(from_child[1], &descheduled, sizeof descheduled) == sizeof descheduled;
    _exit(ok ? 0 : 1);
  }
  char ready = 0;
  ASSERT_EQ(read(from_child[0], &ready, 1), 1);
  sleep_ms(50);
  kill(child, SIGSTOP);
  sleep_ms(400);
  kill(child, SIGCONT);
  double descheduled = 0;
  ASSERT_EQ(read(from_child[0], &descheduled, sizeof descheduled),
            static_cast<ssize_t>(sizeof descheduled));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(from_child[0]);
  close(from_child[1]);
  EXPECT_GT(descheduled, 0.3);
  EXPECT_LT(descheduled, 5);
}

TEST(DescheduleWatch, StartsAgainFromZeroAfterTake) {
  DescheduleWatch watch;
  watch.take();
  EXPECT_LT(watch.take(), 0.5);
}

}  // namespace
}  // namespace reigen
