#include "base/thread.h"

#include <gtest/gtest.h>

#include <limits>

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

// In memory, so that nothing is computed by the compiler.
float half_of(volatile float& x) { return x * 0.5F; }

TEST(FlushSubnormals, HoldsForTheThreadAndForThoseItStarts) {
  thread_without_signals([] {
    volatile float least = std::numeric_limits<float>::min();
    volatile float subnormal = std::numeric_limits<float>::denorm_min();
    EXPECT_GT(half_of(least), 0);
    flush_subnormals();
    EXPECT_EQ(half_of(least), 0);     // as a result
    EXPECT_EQ(subnormal * 1e30F, 0);  // as an operand
    volatile float normal = 1e-37F;
    EXPECT_EQ(half_of(normal), 5e-38F);
    float in_child = 1;
    thread_without_signals([&] {
      volatile float again = std::numeric_limits<float>::min();
      in_child = half_of(again);
    }).join();
    EXPECT_EQ(in_child, 0);
  }).join();
  volatile float least = std::numeric_limits<float>::min();
  EXPECT_GT(half_of(least), 0);  // others are as they were
}

}  // namespace
}  // namespace reigen
