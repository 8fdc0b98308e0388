// wire_format.h on a GPU: all pointers are to GPU memory.
#pragma once

#include <cstddef>

#include "device/cuda/runtime.h"
#include "dist/group/group.h"

namespace reigen::nccl {

// `wire` is bf16 or fp16.
void to_wire(Wire wire, const float* values, size_t count, void* out, cudaStream_t stream);
void from_wire(Wire wire, const void* in, size_t count, float* values, cudaStream_t stream);

// `addends` holds `count` values of each of `ranks`, one rank after another; they are added in
// order, in fp32.
void sum_addends(Wire wire, const void* addends, int ranks, size_t count, float* sum,
                 cudaStream_t stream);

}  // namespace reigen::nccl
