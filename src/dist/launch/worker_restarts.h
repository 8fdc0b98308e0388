// --restarts in an elastic job: a worker that was lost is started again, and joins those that
// continue. Decides which and when; the launcher starts it. One restart of a worker counts as much
// as one of the whole job. A place never has two workers: the next one is started after the end of
// the one before was seen.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/launch/launched_workers.h"
#include "dist/launch/restarts.h"

namespace reigen {

class WorkerRestarts {
 public:
  using Clock = std::chrono::steady_clock;
  // A worker that has trained for so long has recovered: its next pause is the shortest again.
  static constexpr std::chrono::minutes kRecovered{10};

  // `budget`: the restarts of the job; null: no worker is started again.
  explicit WorkerRestarts(Restarts* budget) : budget_(budget) {}

  // A worker tells where it can be asked about the job, once it trains.
  void learn_address(const WorkerAddress& address);
  // The standby ports of the workers that run, as a joiner gets them. Empty: there is no job to
  // join.
  std::string addresses() const;

  // A worker on that host has ended. Returns a text for the log; empty where nothing was expected
  // of it any more, and in a job that cannot be joined.
  std::string after(const WorkerEnd& end, const std::string& host, Clock::time_point now);
  // No worker runs there any more, or none that can be seen.
  void forget_address(int rank) { at_.erase(rank); }
  // Whether a worker is to be started in that place.
  bool pending(int rank) const;
  // The ranks whose pause is over, each once: they are started now.
  std::vector<int> due(Clock::time_point now);
  // The job ends: no worker is started any more.
  void end() { ends_ = true; }
  bool ended() const { return ends_; }
  // Whether a lost worker may still be started.
  bool possible() const { return budget_ != nullptr && budget_->allowed() > 0 && !ends_; }

 private:
  // Where a worker runs: a rank of the start of the job.
  struct Place {
    int tries = 0;  // since it recovered
    std::optional<Clock::time_point> due = {};
    std::optional<Clock::time_point> started = {};
  };

  Restarts* budget_;
  std::map<int, Place> places_;
  std::map<int, std::string> at_;
  bool ends_ = false;
};

}  // namespace reigen
