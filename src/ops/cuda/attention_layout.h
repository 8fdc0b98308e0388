// What the schedule of attention and its kernels agree on: who is served by which kernels, how a
// block is divided, and what backward keeps in shared memory.
#pragma once

#include <cstdint>

#include "ops/cuda/attention.h"

namespace reigen::cuda {

constexpr int kAttentionWarps = 4;  // in a block
constexpr uint32_t kAttentionSharedBytes =
    72 * 1024;  // three blocks share a multiprocessor's 227 KiB

// Tensor cores take 16-bit heads of these widths (attention_forward.cu, attention_backward.cu);
// everything else is multiplied lane by lane (attention_lanes.cu).
inline bool attention_in_tiles(DType dtype, int64_t head_width) {
  return dtype != DType::kF32 && (head_width == 32 || head_width == 64 || head_width == 128);
}

// What backward needs of a query beside its rows.
struct QueryNumbers {
  float log_sum;  // base 2
  float dot;      // sum of dO * O, which is the mean of dP under the weights
};

// What a block keeps in shared memory, in this order; sizes in bytes, multiples of 16.
struct BlockLayout {
  uint32_t numbers;  // of heads x queries
  uint32_t tiles;
  uint32_t query_rows;  // one matrix of them; there are two, and two of keys
  uint32_t key_rows;

  __host__ __device__ BlockLayout(uint32_t heads, uint32_t queries, uint32_t keys, uint32_t width)
      : numbers((heads * queries + 1) / 2 * 16),
        tiles(heads * ((queries + 15) / 16) * ((keys + 15) / 16) * 512),
        query_rows(heads * queries * width * 2),
        key_rows(heads * keys * width * 2) {}
  __host__ __device__ uint32_t all() const {
    return numbers + tiles + 2 * query_rows + 2 * key_rows;
  }
};

}  // namespace reigen::cuda
