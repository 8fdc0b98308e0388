#include "decode/window_feed.h"

#include <chrono>

#include "base/interrupt.h"
#include "decode/search.h"

namespace reigen {
namespace {

// A source is named by the number of its window in the stream and its place there.
constexpr int kPlaceBits = 32;

constexpr std::chrono::milliseconds kPoll(100);  // for signals, while a queue is full

}  // namespace

bool WindowQueue::push(std::unique_ptr<StreamWindow> window) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPoll, [&] { return closed_ || windows_.size() < most_; })) {
    check_interrupt();
  }
  if (closed_) return false;
  windows_.push_back(std::move(window));
  changed_.notify_all();
  return true;
}

std::unique_ptr<StreamWindow> WindowQueue::pop(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return closed_ || !windows_.empty(); });
  if (windows_.empty()) return nullptr;
  auto window = std::move(windows_.front());
  windows_.pop_front();
  changed_.notify_all();
  return window;
}

void WindowQueue::close(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (error && !error_) error_ = error;
  changed_.notify_all();
}

bool WindowQueue::ended() {
  const std::lock_guard lock(mutex_);
  return closed_ && !error_ && windows_.empty();
}

void WindowQueue::rethrow_error() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

// A search waits for a source only when it has none left.
bool WindowFeed::open_window(bool wait) {
  auto window = input_.pop(wait || steady_);
  if (!window) {
    if (wait) input_.rethrow_error();
    input_ended_ = input_.ended();
    return false;
  }
  input_ended_ = window->last;
  const auto& sources = window->lines.sources;
  window->found.resize(sources.size());
  window->left = sources.size();
  window->order = by_length(sources);
  windows_.push_back(std::move(window));
  hand_on();  // a window without words is done
  return true;
}

std::optional<SearchSource> WindowFeed::next(bool wait) {
  while (windows_.empty() || windows_.back()->taken == windows_.back()->order.size()) {
    if (input_ended_ || !open_window(wait)) {
      ended_ = input_ended_;
      return std::nullopt;
    }
  }
  StreamWindow& window = *windows_.back();
  const size_t place = window.order[window.taken++];
  ended_ = input_ended_ && window.taken == window.order.size();
  const uint64_t number = first_ + windows_.size() - 1;
  return source_of(window.lines.sources, window.lines.extras, place,
                   (number << kPlaceBits) + place);
}

void WindowFeed::found(size_t number, std::vector<Hypothesis> hypotheses) {
  StreamWindow& window = *windows_[(number >> kPlaceBits) - first_];
  window.found[number & ((uint64_t{1} << kPlaceBits) - 1)] = std::move(hypotheses);
  --window.left;
  ++finished_;
  if (progress_) progress_(finished_);
  hand_on();
}

void WindowFeed::hand_on() {
  while (!windows_.empty() && windows_.front()->left == 0) {
    auto window = std::move(windows_.front());
    windows_.pop_front();
    ++first_;
    done_(std::move(window));
  }
}

}  // namespace reigen
