#include "train/run/event_command.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "base/thread.h"
#include "dist/launch/child_process.h"

namespace reigen {
namespace {

struct RaisedEvent {
  RunEvent event = RunEvent::kFinished;
  uint64_t step = 0;
  std::string message;
};

// A command in progress. Its output is read so that it never waits for a full pipe; the last line
// of it explains a failure.
class RunningCommand {
 public:
  RunningCommand(const EventOptions& options, const RaisedEvent& raised)
      : event_(raised.event), child_(spec(options, raised)) {}

  // Whether it has ended, or was ended because of its time; a failure is logged.
  bool settled(double limit) {
    read(child_.out().fd());
    read(child_.err().fd());
    if (const std::optional<int> status = child_.ended()) {
      read(child_.err().fd());
      if (*status != 0) {
        log_warning(format("the command of --on-event ended with status {} for the event {}{}",
                           *status, id_of(event_), last_line()));
      }
      return true;
    }
    if (watch_.seconds() < limit) return false;
    log_warning(format("the command of --on-event was stopped after {} for the event {}",
                       human_seconds(limit), id_of(event_)));
    return true;
  }

 private:
  static ChildSpec spec(const EventOptions& options, const RaisedEvent& raised) {
    ChildSpec spec;
    // Linux starts no process with a variable of more than 128 KB, and the errors of workers may
    // quote anything.
    constexpr size_t kMostOfAMessage = 2000;
    spec.command = {"sh", "-c", options.command};
    spec.without_secrets = true;
    spec.environment = {
        std::string("REIGEN_EVENT=") + id_of(raised.event), "REIGEN_EVENT_RUN=" + options.run,
        "REIGEN_EVENT_STEP=" + std::to_string(raised.step),
        "REIGEN_EVENT_MESSAGE=" + printable_line(raised.message.substr(0, kMostOfAMessage))};
    return spec;
  }

  void read(int descriptor) {
    constexpr size_t kMost = 4096;
    std::array<char, kMost> bytes = {};
    for (ssize_t got = 0; (got = ::read(descriptor, bytes.data(), bytes.size())) > 0;) {
      output_.append(bytes.data(), static_cast<size_t>(got));
      if (output_.size() > kMost) output_.erase(0, output_.size() - kMost);
    }
  }

  std::string last_line() const {
    std::string_view text = output_;
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    text = text.substr(text.rfind('\n') + 1);
    constexpr size_t kMostShown = 200;
    return text.empty() ? "" : ": " + printable(std::string(text.substr(0, kMostShown)));
  }

  RunEvent event_;
  ChildProcess child_;
  Stopwatch watch_;
  std::string output_;
};

}  // namespace

const char* id_of(RunEvent event) {
  switch (event) {
    case RunEvent::kFinished:
      return "finished";
    case RunEvent::kDiverged:
      return "diverged";
    case RunEvent::kLostWorker:
      return "lost-worker";
    case RunEvent::kStalled:
      break;
  }
  return "stalled";
}

class EventCommand::Loop {
 public:
  explicit Loop(EventOptions options) : options_(std::move(options)) {
    options_.run = std::filesystem::absolute(options_.run).lexically_normal().string();
    thread_ = thread_without_signals([this] { work(); });
  }

  ~Loop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void raise(RaisedEvent raised) {
    {
      const std::lock_guard lock(mutex_);
      raised_.push_back(std::move(raised));
    }
    changed_.notify_one();
  }

  void progress(uint64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    watched_ = true;
    told_ = false;
    since_progress_ = {};
  }

  void rest() {
    const std::lock_guard lock(mutex_);
    watched_ = false;
  }

 private:
  void work() {
    constexpr std::chrono::milliseconds kTick{50};
    std::unique_lock lock(mutex_);
    while (!ending_ || !raised_.empty() || !running_.empty()) {
      if (ending_ && interrupt_requested()) return;
      notice_stall();
      const std::deque<RaisedEvent> now = std::exchange(raised_, {});
      lock.unlock();
      for (const RaisedEvent& raised : now) start(raised);
      running_.remove_if([&](RunningCommand& one) { return one.settled(options_.limit); });
      lock.lock();
      changed_.wait_for(lock, kTick,
                        [&] { return !raised_.empty() || (ending_ && running_.empty()); });
    }
  }

  void notice_stall() {
    const double since = since_progress_.seconds();
    if (!watched_ || told_ || options_.stalled_after == 0 || since < options_.stalled_after) return;
    told_ = true;
    raised_.push_back(
        {RunEvent::kStalled, step_,
         format("no step, evaluation or checkpoint has ended for {}", human_seconds(since))});
  }

  void start(const RaisedEvent& raised) {
    try {
      running_.emplace_back(options_, raised);
    } catch (const Error& e) {
      log_warning(format("the command of --on-event could not be started for the event {}: {}",
                         id_of(raised.event), e.what()));
    }
  }

  EventOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RaisedEvent> raised_;
  uint64_t step_ = 0;
  bool watched_ = false;
  bool told_ = false;  // of the present stall
  bool ending_ = false;
  Stopwatch since_progress_;
  std::list<RunningCommand> running_;  // of the thread alone
  std::thread thread_;
};

EventCommand::EventCommand(EventOptions options)
    : loop_(std::make_unique<Loop>(std::move(options))) {}

EventCommand::~EventCommand() = default;

void EventCommand::raise(RunEvent event, uint64_t step, const std::string& message) {
  loop_->raise({event, step, message});
}

void EventCommand::progress(uint64_t step) { loop_->progress(step); }

void EventCommand::rest() { loop_->rest(); }

}  // namespace reigen
