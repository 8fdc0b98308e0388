#include "dist/group/single_group.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

namespace reigen {
namespace {

class SingleGroup : public Group {
 public:
  explicit SingleGroup(int64_t epoch) : Group(0, 1, epoch) {}

  void close(CommStatus why) override {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = why;
  }

  CommStatus leave() override {
    close(CommStatus::closed("left"));
    return {};
  }

  CommStatus status() const override {
    std::lock_guard lock(mutex_);
    return status_;
  }

  CommCounters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 protected:
  Pending start(Operation operation) override {
    if (operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive) {
      throw std::logic_error("a group of one rank has no peer to send to or receive from");
    }
    const ErrorFeedback& feedback = operation.feedback;
    for (size_t i = 0; i < feedback.last.size(); ++i) operation.floats[i] += feedback.last[i];
    std::fill(feedback.next.begin(), feedback.next.end(), 0.0F);
    auto state = std::make_shared<Pending::State>();
    std::lock_guard lock(mutex_);
    ++counters_[static_cast<size_t>(operation.kind)].operations;
    state->finish(status_);
    return Pending(state);
  }

 private:
  mutable std::mutex mutex_;
  CommStatus status_;
  CommCounters counters_;
};

}  // namespace

std::unique_ptr<Group> make_single_group(int64_t epoch) {
  return std::make_unique<SingleGroup>(epoch);
}

}  // namespace reigen
