// Activation functions of the feed-forward layers, for the option and the operation alike.
#pragma once

#include <cstdint>

namespace reigen {

enum class ActivationKind : uint8_t { kRelu, kGelu, kSwish };

}  // namespace reigen
