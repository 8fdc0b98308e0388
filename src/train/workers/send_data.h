// Prepared data brought to hosts that do not have it, from the first worker over the group.
#pragma once

#include <string>

#include "dist/members/job.h"

namespace reigen {

// Afterwards every worker has at `path` what the first one has there, whole and verified by its
// manifest. A host's first worker writes for all of its workers. Throws ConfigError when something
// else is in the way.
void send_data(Job& job, const std::string& path);

}  // namespace reigen
