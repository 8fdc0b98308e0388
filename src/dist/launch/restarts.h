// --restarts: whether a job that has failed starts again by itself, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/launch/launch.h"
#include "dist/launch/local_launch.h"

namespace reigen {

// Whether the same job may do better in a second attempt: after the loss of a worker or of a host,
// after an error of a device, and on the hosts that remain after a notice of preemption. Not after
// a signal to stop, nor after errors that would repeat: configuration, data, checkpoint, files, a
// diverged loss.
bool worth_a_restart(int code);

class Restarts {
 public:
  // Attempts in a row that wrote no checkpoint, after which the job is given up.
  static constexpr int kMostWithoutProgress = 3;

  explicit Restarts(int64_t allowed) : allowed_(allowed) {}

  // After an attempt that failed. The pause before the next one; nothing if there is none, and then
  // why_not() is the reason, empty where an error is not worth a restart.
  std::optional<std::chrono::seconds> after(const LaunchResult& end);
  const std::string& why_not() const { return why_not_; }

  // For one worker of an elastic job (worker_restarts.h). False if none is left.
  bool take();
  // Before the next try, after so many of them without success.
  static std::chrono::seconds pause(int tries);

  int64_t used() const { return used_; }
  int64_t allowed() const { return allowed_; }
  int64_t left() const { return allowed_ - used_; }
  // The last checkpoint of the run, as far as it is known. A copy that was restored may be older
  // than the one before.
  std::optional<uint64_t> checkpoint() const { return checkpoint_; }

 private:
  int64_t allowed_;
  int64_t used_ = 0;
  int without_progress_ = 0;  // attempts since the last new checkpoint
  int pauses_ = 0;            // since then, which decide the length of the next one
  std::optional<uint64_t> checkpoint_;
  std::string why_not_;
};

// What a launcher knows of a run before it starts workers.
struct KnownOfRun {
  std::optional<uint64_t> heard_of;  // its last checkpoint, from earlier attempts
  std::optional<uint64_t> found;     // the last one in the run's directory, where that is usable
  bool directory = false;            // there is one, maybe without a checkpoint
  bool copied = false;               // --checkpoint.copy-to names a second place
};

enum class StartFrom : uint8_t {
  kDirectory,  // resumes from it, or begins in it
  kCopy,       // the checkpoint is lost without it
  kAnyCopy,    // if there is one; otherwise the run begins
  kNothing,    // a run is never begun anew because its directory is away
};
StartFrom start_from(const KnownOfRun& run);

// The number of a restart and its cause, which rank 0 records: as variables for it, and read back.
struct RestartFacts {
  uint64_t number = 0;  // 0: the first start of a job
  std::string cause;
};
std::vector<std::string> restart_environment(const RestartFacts& facts);
RestartFacts restart_facts(const Environment& environment = process_environment);

}  // namespace reigen
