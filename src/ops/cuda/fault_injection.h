// A GPU fault on request, for the tests of a run's reaction to one. Only builds with
// REIGEN_FAULT_INJECTION have it (fault_injection.cu); in all others it does nothing (ops/stub).
#pragma once

#include <cstdint>

#include "device/cuda/runtime.h"

namespace reigen::cuda {

// Launches a kernel that writes to an invalid address when `step` is REIGEN_BREAK_GPU_AT_STEP.
void inject_fault(cudaStream_t stream, uint64_t step);

}  // namespace reigen::cuda
