// How the loss scale of fp16 training follows the gradients.
#pragma once

#include <cstdint>

namespace reigen {

enum class LossScaling : uint8_t {
  kOff,      // for bf16 and fp32
  kBackoff,  // halved when a gradient is not finite, doubled after many finite ones
  kLogMax,   // as in OpenSeq2Seq: from mean and deviation of the log of the largest gradient
};

}  // namespace reigen
