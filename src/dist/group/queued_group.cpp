#include "dist/group/queued_group.h"

#include "base/thread.h"

namespace reigen {

QueuedGroup::QueuedGroup(int rank, int size, int64_t epoch) : Group(rank, size, epoch) {
  thread_ = thread_without_signals([this] { work(); });
}

CommStatus QueuedGroup::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

CommCounters QueuedGroup::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void QueuedGroup::watch(OpWatcher watcher) {
  std::lock_guard lock(mutex_);
  watcher_ = std::move(watcher);
}

Pending QueuedGroup::start(Operation operation) {
  auto state = std::make_shared<Pending::State>();
  std::unique_lock lock(mutex_);
  if (!status_.ok() || stopping_) {
    state->finish(status_.ok() ? CommStatus::closed("") : status_);
    return Pending(state);
  }
  queue_.push_back({operation, state});
  changed_.notify_all();
  return Pending(state);
}

bool QueuedGroup::end(const CommStatus& why) {
  std::lock_guard lock(mutex_);
  if (!status_.ok()) return false;
  status_ = why;
  for (auto& item : queue_) item.state->finish(why);
  queue_.clear();
  changed_.notify_all();
  return true;
}

void QueuedGroup::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void QueuedGroup::stop_queue() {
  end(CommStatus::closed(""));
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void QueuedGroup::work() {
  flush_subnormals();  // it sums and rounds gradients
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    item.state->begin();
    const auto begin = CommClock::now();
    CommCounter counter;
    counter.operations = 1;
    CommStatus status;
    try {
      carry_out(item.operation, counter);
    } catch (const CommFailure& failure) {
      status = failure.status;
    }
    const auto ended = CommClock::now();
    counter.seconds = std::chrono::duration<double>(ended - begin).count();
    if (!status.ok()) end(status);
    lock.lock();
    // If close() interrupted the operation, its caller's reason is the one to report.
    if (!status.ok()) status = status_;
    CommCounter& total = counters_[static_cast<size_t>(item.operation.kind)];
    total.operations += counter.operations;
    total.bytes_sent += counter.bytes_sent;
    total.bytes_received += counter.bytes_received;
    total.inter_node_bytes += counter.inter_node_bytes;
    total.seconds += counter.seconds;
    if (watcher_)
      watcher_(item.operation, {.queued = begin, .begin = begin, .end = ended}, counter.bytes_sent);
    busy_ = false;
    item.state->finish(status);
    changed_.notify_all();
  }
}

}  // namespace reigen
