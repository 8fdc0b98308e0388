#include "dist/launch/worker_restarts.h"

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// A worker that was asked to leave has done so, and its host may be about to go.
bool left_in_order(int code) {
  return code == 0 || code == static_cast<int>(ExitCode::kInterrupted) ||
         code == static_cast<int>(ExitCode::kPreempted);
}

}  // namespace

void WorkerRestarts::learn_address(const WorkerAddress& address) { at_[address.rank] = address.at; }

std::string WorkerRestarts::addresses() const {
  std::string all;
  for (const auto& [rank, at] : at_) all += (all.empty() ? "" : ",") + at;
  return all;
}

std::string WorkerRestarts::after(const WorkerEnd& end, const std::string& host,
                                  Clock::time_point now) {
  at_.erase(end.rank);
  if (!possible() || left_in_order(end.code) || at_.empty()) return "";
  const std::string who = format("worker {} ({}): {}", end.number, host, end.error);
  if (!worth_a_restart(end.code)) {
    return format("{}; it is not started again, because that error would repeat", who);
  }
  if (!budget_->take()) {
    return format("{}; it is not started again: no restart is left of --restarts {}", who,
                  budget_->allowed());
  }
  Place& place = places_[end.rank];
  if (place.started && now - *place.started >= kRecovered) place.tries = 0;
  const std::chrono::seconds pause = Restarts::pause(place.tries++);
  place.due = now + pause;
  return format("{}; it is started again in {} s and joins the others; restart {} of {}", who,
                pause.count(), budget_->used(), budget_->allowed());
}

bool WorkerRestarts::pending(int rank) const {
  const auto place = places_.find(rank);
  return place != places_.end() && place->second.due;
}

std::vector<int> WorkerRestarts::due(Clock::time_point now) {
  std::vector<int> ranks;
  if (ends_ || at_.empty()) return ranks;
  for (auto& [rank, place] : places_) {
    if (!place.due || now < *place.due) continue;
    place.due.reset();
    place.started = now;
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace reigen
