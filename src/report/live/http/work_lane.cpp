#include "report/live/http/work_lane.h"

#include <utility>

#include "base/thread.h"

namespace reigen {
namespace {

constexpr size_t kMostTasks = 64;  // also those of clients that have left since

}  // namespace

WorkLane::WorkLane() {
  thread_ = thread_without_signals([this] { run(); });
}

WorkLane::~WorkLane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool WorkLane::add(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= kMostTasks) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return true;
}

void WorkLane::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace reigen
