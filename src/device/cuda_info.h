// Whether this binary has a CUDA backend, and which GPUs this machine has.
//
// Two files define it: cuda/cuda_info.cu where the backend is in the program or its library, and
// loaded/cuda_info.cpp, which loads that library.
#pragma once

#include <string>

namespace reigen {

// "13.0, driver 13.0, 1 GPU: NVIDIA H200 (139 GiB, sm_90)", or the reason why there is none.
std::string describe_cuda();

// The number of GPUs this process can use, without opening one; 0 without a backend or driver.
int usable_gpus();

// Why an NVIDIA GPU that this machine has cannot be used, and what to do; empty if it has none, or
// one that can be used.
std::string why_gpu_unused();

}  // namespace reigen
