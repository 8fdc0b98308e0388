// Measures the time in which this process was descheduled: throttled by a CPU quota, stopped by a
// signal, or on a paused virtual machine.
//
// A thread sleeps for twenty milliseconds at a time and sums the delay of its wake-ups. A busy host
// does not count: the kernel wakes a sleeping thread there within a few milliseconds. A quota may
// throttle other threads but not this one, so the throttled time of the process's control group
// (cpu.stat) is read too, and the longer of both counts. The wait of a worker for the others looks
// the same whether they or the worker itself were descheduled; this measurement distinguishes the
// two.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace reigen {

class DescheduleWatch {
 public:
  DescheduleWatch();
  ~DescheduleWatch();
  DescheduleWatch(const DescheduleWatch&) = delete;
  DescheduleWatch& operator=(const DescheduleWatch&) = delete;

  double take();  // seconds since the last call

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  double descheduled_ = 0;
  std::thread thread_;
};

}  // namespace reigen
