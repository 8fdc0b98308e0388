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
// succeeded; throws the error of the first one that failed.
void launch_workers(const std::string& command, const std::vector<std::string>& arguments,
                    const WorkerOptions& options);

}  // namespace reigen
