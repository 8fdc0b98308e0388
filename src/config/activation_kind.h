// Activation functions of the feed-forward layers, for the option and the operation alike.
#pragma once

#include <cstdint>

namespace reigen {

// kGelu is its tanh form, kGeluErf the exact one.
enum class ActivationKind : uint8_t { kRelu, kGelu, kSwish, kGeluErf };

}  // namespace reigen
