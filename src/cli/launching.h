// Starts the workers of `train` and `doctor`, and waits for their end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/worker_options.h"

namespace reigen {

// Whether this process has to start workers: the options ask for several, or for restarts, and it
// is not one of them. Throws ConfigError when options contradict each other.
bool starts_workers(const WorkerOptions& options);

// A command that workers execute.
struct WorkerCommand {
  std::string name;  // "train"
  std::vector<std::string> arguments;
  // "KEY=value" for rank 0, for secrets that may not be on a command line.
  std::vector<std::string> rank0_environment = {};
  double longest_wait = 0;  // the seconds that rank 0 may wait for room on a full disk
  std::string run = {};     // the run directory; without one there are no restarts
  std::string copy = {};    // the place of its second copy, if there is one
  std::string on_event = {};
};

// With --restarts, on one host: makes a run whose directory is gone from the second copy of its
// last checkpoint, with a warning that names place and step; returns the step, or nothing where
// there is a directory, or no copy. Throws CommError where the checkpoint that a launcher has heard
// of is lost: a run is never begun anew because its directory is away.
std::optional<uint64_t> restore_lost_run(const WorkerCommand& command, const WorkerOptions& options,
                                         std::optional<uint64_t> heard_of = std::nullopt);

// Starts the command on this host or over ssh, again with --restarts, and returns when all workers
// have succeeded; throws the error of the first one that failed.
void launch_workers(const WorkerCommand& command, const WorkerOptions& options);

}  // namespace reigen
