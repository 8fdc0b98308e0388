// Windows of lines on their way through a search: encoded on a thread of their own while earlier
// ones are searched, and handed on in order when their last sentence is found.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "decode/translator.h"

namespace reigen {

struct StreamWindow {
  EncodedLines lines;
  bool last = false;  // of the stream
  std::vector<std::vector<Hypothesis>> found;
  // Of the feed.
  std::vector<size_t> order;  // sources by falling length
  size_t taken = 0;
  size_t left = 0;
};

// A queue between two threads. Closing it wakes both.
class WindowQueue {
 public:
  explicit WindowQueue(size_t most) : most_(most) {}

  // Waits for room; false: closed. Throws Interrupted after a signal.
  bool push(std::unique_ptr<StreamWindow> window);
  std::unique_ptr<StreamWindow> pop(bool wait);  // null: closed and empty, or empty now
  void close(std::exception_ptr error = nullptr);
  bool ended();          // closed without an error, and empty
  void rethrow_error();  // the one given to close(), if any

 private:
  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<StreamWindow>> windows_;
  bool closed_ = false;
  std::exception_ptr error_;
};

// An error of the input is thrown when all windows before it are searched.
class WindowFeed : public SearchFeed {
 public:
  // With `steady`, next() always waits for the reader, so that the sentences that are searched
  // together do not depend on time. `done` receives each window in the order of the stream;
  // `progress` the number of finished sentences.
  WindowFeed(WindowQueue& input, bool steady,
             std::function<void(std::unique_ptr<StreamWindow>)> done,
             std::function<void(uint64_t)> progress)
      : input_(input), steady_(steady), done_(std::move(done)), progress_(std::move(progress)) {}

  std::optional<SearchSource> next(bool wait) override;
  bool ended() const override { return ended_; }
  void found(size_t number, std::vector<Hypothesis> hypotheses) override;

 private:
  bool open_window(bool wait);
  void hand_on();

  WindowQueue& input_;
  const bool steady_;
  std::function<void(std::unique_ptr<StreamWindow>)> done_;
  std::function<void(uint64_t)> progress_;
  std::deque<std::unique_ptr<StreamWindow>> windows_;  // in search; the last one is being taken
  uint64_t first_ = 0;                                 // number of windows_.front() in the stream
  uint64_t finished_ = 0;                              // sentences
  bool input_ended_ = false;
  bool ended_ = false;  // nothing is left to take
};

}  // namespace reigen
