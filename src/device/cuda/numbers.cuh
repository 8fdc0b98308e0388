// The 16-bit number types of kernels. Only device/cuda includes CUDA's own headers (see
// scripts/check_layers.py).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
