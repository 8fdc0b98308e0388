// Commands that several workers carry out: whether this process starts them, and how they end.
#pragma once

#include <string>
#include <vector>

#include "config/worker_options.h"

namespace reigen {

// Whether the options ask for workers that nobody has started yet. Throws ConfigError when they
// contradict each other.
bool starts_workers(const WorkerOptions& options);

// Starts `reigen COMMAND ARGUMENTS` on this host or over ssh, and returns when all have ended well;
// throws the error of the first that did not.
void launch_workers(const std::string& command, const std::vector<std::string>& arguments,
                    const WorkerOptions& options);

}  // namespace reigen
