// When and where something was measured: the clock and the host every record names.
#pragma once

#include <string>

namespace reigen {

// Seconds since 1970 with the microseconds. For stamps only: it jumps when the clock is set.
double unix_now();

// What the system calls this machine; "unknown" where it has no name.
std::string host_name();

}  // namespace reigen
