// ops/cached_attention.h on CUDA: the same struct with device pointers, its key lists too.
//
// q, k, v and out share a type, 16-bit or fp32; head widths are multiples of 8 up to 256. A row
// without keys gets zeros.
#pragma once

#include "ops/cached_attention.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

void cached_attention(const Context& context, const CachedAttention& op);

}  // namespace reigen::cuda
