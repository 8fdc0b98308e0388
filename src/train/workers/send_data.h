// --send-data: rank 0 sends the dataset over the group to machines that do not have it.
#pragma once

#include <string>

#include "dist/members/job.h"

namespace reigen {

// Afterwards every worker has rank 0's dataset at `path`, complete and verified by its manifest.
// The lowest rank of each machine writes for all workers there. Throws ConfigError when `path`
// holds other files.
void send_data(Job& job, const std::string& path);

}  // namespace reigen
