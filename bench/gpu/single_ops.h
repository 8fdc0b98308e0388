// Times the operations that a training step of `base` in bf16 does not use: those of decoding, and
// attention without tensor cores.
#pragma once

#include "ops/cuda/context.h"

namespace reigen::bench {

void time_single_operations(const cuda::Context& context);

}  // namespace reigen::bench
