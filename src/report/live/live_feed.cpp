#include "report/live/live_feed.h"

#include <pthread.h>

#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/thread.h"
#include "report/live/live_data.h"

namespace reigen {
namespace {

constexpr double kFresh = 0.9;      // seconds; the page asks every two seconds
constexpr double kLongReading = 1;  // seconds; worth saving a rollup for the next reader
constexpr auto kPatience = std::chrono::milliseconds(700);

double steady_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

LiveFeed::LiveFeed(std::string run_directory, bool beside_work)
    : directory_(run_directory), beside_work_(beside_work), reader_(std::move(run_directory)) {
  wanted_ = !beside_work;  // `reigen dashboard` is always looked at
  thread_ = thread_without_signals([this] { run(); });
}

LiveFeed::~LiveFeed() {
  reader_.cancel();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string LiveFeed::read_json() {
  try {
    Stopwatch watch;
    reader_.refresh();
    if (watch.seconds() > kLongReading) reader_.save();
    return one_line(live_data(directory_, reader_, unix_now()));
  } catch (const DataError&) {  // no log yet: the run is starting or resuming
    return one_line(live_placeholder(directory_, "starting", "starting: no measurements yet"));
  } catch (const std::exception& e) {
    return one_line(live_placeholder(directory_, "unreadable", e.what()));
  }
}

void LiveFeed::run() {
  pthread_setname_np(pthread_self(), "live page");
  if (beside_work_) lower_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return wanted_ || stopping_; });
    if (stopping_) return;
    lock.unlock();
    std::string text;
    {
      const std::lock_guard reading(reader_mutex_);
      text = read_json();
    }
    lock.lock();
    text_ = std::move(text);
    read_at_ = steady_now();
    wanted_ = false;
    changed_.notify_all();
  }
}

std::string LiveFeed::json() {
  std::unique_lock lock(mutex_);
  if (text_.empty() || steady_now() - read_at_ > kFresh) {
    wanted_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [this] { return !wanted_ || stopping_; });
  }
  if (!text_.empty()) return text_;
  return one_line(
      live_placeholder(directory_, "reading",
                       format("reading the logs: {:.0f}% of {}", 100 * reader_.progress(),
                              human_bytes(reader_.bytes_to_read()))));
}

void LiveFeed::visit_run(const std::function<void(const RunReader&)>& visit) {
  const std::lock_guard reading(reader_mutex_);
  reader_.refresh();
  visit(reader_);
}

}  // namespace reigen
