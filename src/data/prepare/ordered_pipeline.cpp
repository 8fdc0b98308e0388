#include "data/prepare/ordered_pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/interrupt.h"
#include "base/thread.h"

namespace reigen {
namespace {

// Every thread does the next task: write the item whose turn it is, else read an item and work on
// it. There is no dedicated reader or writer, so two threads use two cores fully.
class Pipeline {
 public:
  Pipeline(const PipelineStages& stages, unsigned threads)
      : stages_(stages), most_in_flight_(4 * threads) {}

  void run(unsigned thread) {
    try {
      while (step(thread)) {
      }
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    changed_.notify_all();
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool can_write() const { return !writing_ && done_.contains(written_); }
  bool can_read() const { return !reading_ && !ended_ && read_ - written_ < most_in_flight_; }
  bool finished() const { return error_ != nullptr || (ended_ && written_ == read_); }

  bool step(unsigned thread) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished() || can_write() || can_read(); });
    if (finished()) return false;
    if (can_write()) {
      write_one(lock);
    } else {
      read_and_work(lock, thread);
    }
    changed_.notify_all();
    return true;
  }

  void write_one(std::unique_lock<std::mutex>& lock) {
    auto item = std::move(done_.extract(written_).mapped());
    writing_ = true;
    lock.unlock();
    stages_.write(*item);
    lock.lock();
    writing_ = false;
    ++written_;
  }

  void read_and_work(std::unique_lock<std::mutex>& lock, unsigned thread) {
    reading_ = true;
    lock.unlock();
    check_interrupt();
    auto item = stages_.read();
    lock.lock();
    reading_ = false;
    if (!item) {
      ended_ = true;
      return;
    }
    uint64_t number = read_++;
    lock.unlock();
    changed_.notify_all();
    stages_.work(*item, thread);
    lock.lock();
    done_.emplace(number, std::move(item));
  }

  const PipelineStages& stages_;
  const uint64_t most_in_flight_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::unique_ptr<PipelineItem>> done_;
  uint64_t read_ = 0;
  uint64_t written_ = 0;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;
  std::exception_ptr error_;
};

}  // namespace

void run_ordered(const PipelineStages& stages, unsigned threads) {
  threads = std::max(1u, threads);
  Pipeline pipeline(stages, threads);
  std::vector<std::jthread> others;
  {
    const SignalsBlocked blocked;
    for (unsigned t = 1; t < threads; ++t) others.emplace_back([&pipeline, t] { pipeline.run(t); });
  }
  pipeline.run(0);
  others.clear();
  pipeline.rethrow();
}

}  // namespace reigen
