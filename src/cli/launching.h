// Starts the workers of `train` and `doctor`, and waits for their end.
#pragma once

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

// Starts the command on this host or over ssh, again with --restarts, and returns when all workers
// have succeeded; throws the error of the first one that failed.
void launch_workers(const WorkerCommand& command, const WorkerOptions& options);

}  // namespace reigen
