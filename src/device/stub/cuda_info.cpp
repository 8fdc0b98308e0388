#include "device/cuda_info.h"

namespace reigen {

std::string describe_cuda() { return "not built in (use the cuda preset where nvcc is found)"; }

int usable_gpus() { return 0; }

}  // namespace reigen
