// Starts the workers of `train` and `doctor`, and waits for their end.
#pragma once

#include <string>
#include <vector>

#include "config/worker_options.h"

namespace reigen {

// Whether this process has to start workers: the options ask for several, and it is not one of
// them. Throws ConfigError when options contradict each other.
bool starts_workers(const WorkerOptions& options);

// Starts `reigen COMMAND ARGUMENTS` on this host or over ssh, and returns when all workers have
// succeeded; throws the error of the first one that failed. `rank0_environment`: "KEY=value" for
// rank 0, for secrets that may not be on a command line. `longest_wait`: the seconds that rank 0
// may wait for room on a full disk.
void launch_workers(const std::string& command, const std::vector<std::string>& arguments,
                    const WorkerOptions& options,
                    const std::vector<std::string>& rank0_environment = {},
                    double longest_wait = 0);

}  // namespace reigen
