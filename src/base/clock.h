// Time that only goes forward, for measuring.
#pragma once

#include <ctime>

#include <chrono>

namespace reigen {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Seconds since the start or the last lap.
  double lap() {
    const Clock::time_point now = Clock::now();
    const double passed = std::chrono::duration<double>(now - lap_).count();
    lap_ = now;
    return passed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Clock::time_point lap_ = start_;
};

// Seconds that processors worked for this process, all its threads together: where it wanted to
// work and was not let (a quota, too many others, stopped), less passes here than on the wall.
class CpuStopwatch {
 public:
  double lap() {
    const double now = used();
    const double passed = now - lap_;
    lap_ = now;
    return passed;
  }

 private:
  static double used() {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double lap_ = used();
};

}  // namespace reigen
