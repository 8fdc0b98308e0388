#include "base/thread.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

bool blocks(int signal_number) {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return sigismember(&set, signal_number) == 1;
}

TEST(ThreadWithoutSignals, BlocksInterruptsInTheNewThreadOnly) {
  bool blocked = false;
  thread_without_signals([&] {
    blocked = blocks(SIGINT) && blocks(SIGTERM) && blocks(SIGHUP);
  }).join();
  EXPECT_TRUE(blocked);
  EXPECT_FALSE(blocks(SIGINT));
}

}  // namespace
}  // namespace reigen
