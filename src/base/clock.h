// Two clocks: a monotonic one to measure with, and the time of day for time stamps.
#pragma once

#include <chrono>

namespace reigen {

inline double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Seconds since 1970, to the microsecond. For time stamps only: it jumps when the clock is set.
double unix_now();

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Seconds since the start or the previous call of lap().
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

}  // namespace reigen
