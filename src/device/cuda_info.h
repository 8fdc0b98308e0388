// Whether this binary has a CUDA backend, and what it finds on this machine.
//
// Two files define it: cuda/cuda_info.cu where the backend is built, stub/cuda_info.cpp elsewhere.
#pragma once

#include <string>

namespace reigen {

// "13.0, driver 13.0, 1 GPU: NVIDIA H200 (139 GiB, sm_90)", or why there is none.
std::string describe_cuda();

}  // namespace reigen
