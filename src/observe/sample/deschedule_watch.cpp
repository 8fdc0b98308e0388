#include "observe/sample/deschedule_watch.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/machine.h"
#include "base/thread.h"

namespace reigen {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSleep{20};
// Wake-up delay on a busy host, which does not count as descheduled.
constexpr std::chrono::milliseconds kUsualDelay{15};

constexpr int kSleepsPerRead = 10;  // of cpu.stat

}  // namespace

DescheduleWatch::DescheduleWatch() {
  thread_ = thread_without_signals([this] { run(); });
}

DescheduleWatch::~DescheduleWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

double DescheduleWatch::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(descheduled_, 0);
}

void DescheduleWatch::run() {
  pthread_setname_np(pthread_self(), "schedule watch");
  double throttled = throttled_seconds();
  Clock::time_point looked = Clock::now();
  double overslept = 0;
  std::unique_lock lock(mutex_);
  for (int beat = 1; !stopping_; ++beat) {
    const Clock::time_point slept = Clock::now();
    wake_.wait_for(lock, kSleep, [this] { return stopping_; });
    const Clock::time_point now = Clock::now();
    const Clock::duration late = now - slept - kSleep;
    if (late > kUsualDelay) overslept += std::chrono::duration<double>(late).count();
    if (beat % kSleepsPerRead != 0) continue;
    const double so_far = throttled_seconds();
    const double passed = std::chrono::duration<double>(now - looked).count();
    descheduled_ += std::max(overslept, std::min(passed, so_far - throttled));
    throttled = so_far;
    looked = now;
    overslept = 0;
  }
}

}  // namespace reigen
