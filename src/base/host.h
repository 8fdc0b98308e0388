// The machine this process runs on.
#pragma once

#include <string>

namespace reigen {

std::string host_name();  // "unknown" where the system does not say

}  // namespace reigen
