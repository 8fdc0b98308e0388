#include "dist/launch/restarts.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "config/schema.h"

namespace reigen {
namespace {

constexpr const char* kNumber = "REIGEN_RESTART";
constexpr const char* kCause = "REIGEN_RESTART_CAUSE";
constexpr int kSignalled = 128;  // exit codes above it: killed by a signal

}  // namespace

bool worth_a_restart(int code) {
  if (code > kSignalled) return code != static_cast<int>(ExitCode::kInterrupted);
  static constexpr std::array kOthers = {ExitCode::kComm, ExitCode::kDevice, ExitCode::kPreempted};
  return std::find(kOthers.begin(), kOthers.end(), static_cast<ExitCode>(code)) != kOthers.end();
}

std::optional<std::chrono::seconds> Restarts::after(const LaunchResult& end) {
  why_not_.clear();
  if (allowed_ == 0 || !worth_a_restart(end.code)) return std::nullopt;
  if (!end.unseen.empty()) {
    why_not_ = format(
        "no restart, because workers of this job may still train on {}, to which only the "
        "connection ended; if they have ended, start the job again",
        fmt::join(end.unseen, ", "));
    return std::nullopt;
  }
  if (end.restored) checkpoint_ = end.restored;
  if (end.checkpoint && (!checkpoint_ || *end.checkpoint > *checkpoint_)) {
    checkpoint_ = end.checkpoint;
    without_progress_ = pauses_ = 0;
  } else if (end.started) {
    ++without_progress_;
  }
  if (without_progress_ >= kMostWithoutProgress) {
    why_not_ = format(
        "no further restart: {} attempts in a row wrote no checkpoint{}; find the "
        "cause, or write checkpoints more often (--checkpoint.minutes)",
        without_progress_, checkpoint_ ? format(" after step {}", with_commas(*checkpoint_)) : "");
    return std::nullopt;
  }
  if (left() == 0) {
    why_not_ = format("no restart is left of --restarts {}", allowed_);
    return std::nullopt;
  }
  ++used_;
  return pause(pauses_++);
}

bool Restarts::take() {
  if (left() == 0) return false;
  ++used_;
  return true;
}

std::chrono::seconds Restarts::pause(int tries) {
  constexpr int kMostDoublings = 9;
  constexpr std::chrono::seconds kLongest{300};
  return std::min(std::chrono::seconds(int64_t{1} << std::min(tries, kMostDoublings)), kLongest);
}

StartFrom start_from(const KnownOfRun& run) {
  if (run.heard_of && run.found < run.heard_of) {
    return run.copied ? StartFrom::kCopy : StartFrom::kNothing;
  }
  return run.directory || !run.copied ? StartFrom::kDirectory : StartFrom::kAnyCopy;
}

std::vector<std::string> restart_environment(const RestartFacts& facts) {
  return {format("{}={}", kNumber, facts.number), format("{}={}", kCause, facts.cause)};
}

RestartFacts restart_facts(const Environment& environment) {
  const auto number = environment(kNumber);
  if (!number || number->empty()) return {};
  constexpr int64_t kMost = 1'000'000;
  return {static_cast<uint64_t>(parse_integer(*number, 0, kMost)),
          environment(kCause).value_or("")};
}

}  // namespace reigen
