// A group whose operations wait in a queue; one thread carries them out in order.
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
  ~QueuedGroup() override { stop_queue(); }  // also after an exception in a subclass's constructor

  CommStatus status() const override;
  void drain() override;
  CommCounters counters() const override;
  void watch(OpWatcher watcher) override;

 protected:
  // Carries out one operation on the group's thread and counts its bytes. Throws CommFailure, which
  // ends the group.
  virtual void carry_out(const Operation& operation, CommCounter& counter) = 0;

  Pending start(Operation operation) override;
  // From now on every operation returns `why`; false if the group had ended before.
  bool end(const CommStatus& why);
  // Ends the thread; a subclass's destructor calls it before its members are destroyed.
  void stop_queue();

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
