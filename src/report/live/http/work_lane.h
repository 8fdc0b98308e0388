// One thread that runs tasks in order: for work that would hold up a server's own thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace reigen {

class WorkLane {
 public:
  WorkLane();
  ~WorkLane();  // waits for the current task; tasks that have not begun are dropped
  WorkLane(const WorkLane&) = delete;
  WorkLane& operator=(const WorkLane&) = delete;

  // A task does not throw. False if too many tasks wait already.
  bool add(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace reigen
