// ops/cuda/fault_injection.h in builds without faults on request.
#include "ops/cuda/fault_injection.h"

namespace reigen::cuda {

void inject_fault(cudaStream_t, uint64_t) {}

}  // namespace reigen::cuda
