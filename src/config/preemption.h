// --preemption: the cloud that is polled for notices that it will take the machine away.
#pragma once

#include <cstdint>

namespace reigen {

enum class Preemption : uint8_t { kAuto, kAws, kGcp, kAzure, kOff };

}  // namespace reigen
