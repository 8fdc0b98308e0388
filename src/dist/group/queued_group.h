// A group whose operations wait in a queue for one thread that carries them out in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "dist/group/group.h"

namespace reigen {

class QueuedGroup : public Group {
 public:
  QueuedGroup(int rank, int size, int64_t epoch);
  ~QueuedGroup() override { stop_queue(); }  // also when a subclass could not be made

  CommStatus status() const override;
  void drain() override;
  CommCounters counters() const override;
  void watch(OpWatcher watcher) override;

 protected:
  // Carries out one operation on the group's thread and counts its bytes. A status other than ok
  // ends the group.
  virtual CommStatus carry_out(const Operation& operation, CommCounter& counter) = 0;

  Pending start(Operation operation) override;
  // From now on every operation gives `why`; false when something else has ended it before.
  bool end(const CommStatus& why);
  void stop_queue();  // ends the thread; for destructors of subclasses, before their parts go

 private:
  struct Item {
    Operation operation;
    std::shared_ptr<Pending::State> state;
  };
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  CommStatus status_;
  CommCounters counters_;
  OpWatcher watcher_;
  std::thread thread_;
};

}  // namespace reigen
