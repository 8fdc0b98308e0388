// --preemption: whose notices that a machine will be taken away are asked for.
#pragma once

#include <cstdint>

namespace reigen {

enum class Preemption : uint8_t { kAuto, kAws, kGcp, kAzure, kOff };

}  // namespace reigen
