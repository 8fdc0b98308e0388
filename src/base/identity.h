// When and where something was measured: the clock and the host every record names.
#pragma once

#include "base/host.h"

namespace reigen {

// Seconds since 1970 with the microseconds. For stamps only: it jumps when the clock is set.
double unix_now();

}  // namespace reigen
