// The architecture that the kernels in use were compiled for, as 10 * major + minor: that of the
// GPU, or an earlier one whose PTX the driver translated for a newer GPU.
//
// Kernels choose instructions and sizes of shared memory by it at compile time. A choice of the
// host that must agree with them follows this number and not the capability of the GPU.
#pragma once

namespace reigen::cuda {

inline constexpr int kTuring = 75;  // fp16 tensor cores, 64 KiB of shared memory a multiprocessor
inline constexpr int kAmpere = 80;  // also bf16, asynchronous copies, at least 100 KiB

int kernel_architecture();

}  // namespace reigen::cuda
