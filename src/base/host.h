// The machine this process runs on.
#pragma once

#include <string>

namespace reigen {

std::string host_name();  // "unknown" where the system does not say

// The calling thread, and those it makes, run when nothing else wants the processor.
void lower_priority();

}  // namespace reigen
