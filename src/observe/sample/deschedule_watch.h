// How long this process was not let run at all: by a quota on processor time, by a stop signal, by
// a machine that was paused.
//
// A thread sleeps for twenty milliseconds at a time and adds up by how much it overslept. A busy
// machine does not count: whoever sleeps is woken there within a few milliseconds. A quota may hold
// other threads and spare this one, so the kernel is asked too how long it throttled the process's
// control group; the longer of both counts. Waiting for others looks the same to a worker whether
// they or itself were held; this tells which.
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
  double held_ = 0;
  std::thread thread_;
};

}  // namespace reigen
