// Shared by the schedule of attention and its kernels: the choice of kernels, the division of a
// block, and the layout of backward's shared memory.
#pragma once

#include <cstdint>

#include "ops/cuda/architecture.h"
#include "ops/cuda/attention/attention.h"

namespace reigen::cuda {

constexpr int kAttentionWarps = 4;  // in a block
constexpr uint32_t kLongTiles =
    kAttentionWarps;  // of a long sentence that a block of backward owns

// Tiles of the other side of a long sentence that a block has in shared memory at once.
constexpr uint32_t chunk_tiles(int architecture) { return architecture >= kAmpere ? 4 : 2; }

// A block's share of a multiprocessor's 227 KiB, of which the system takes 1 KiB a block. Three
// blocks share it, or two with heads of 128, which need more registers. Turing: two blocks, or one
// with heads of 128.
inline uint32_t attention_shared_bytes(int64_t head_width) {
  if (kernel_architecture() < kAmpere) return (head_width == 128 ? 64 : 32) * 1024;
  return (head_width == 128 ? 98 : 74) * 1024;
}

// Tensor cores multiply 16-bit heads of these widths (attention_forward.cu, attention_backward.cu);
// everything else is multiplied lane by lane (attention_lanes.cu).
inline bool attention_in_tiles(DType dtype, int64_t head_width) {
  const int least = dtype == DType::kF16 ? kTuring : kAmpere;
  return kernel_architecture() >= least && dtype != DType::kF32 &&
         (head_width == 32 || head_width == 64 || head_width == 128);
}

// Per-query numbers that backward needs beside the rows.
struct QueryNumbers {
  float log_sum;  // base 2
  float dot;      // sum of dO * O, which is the mean of dP under the weights
};

// The shared memory of a block of backward, in this order; sizes in bytes. Rows are whole tiles of
// 16 and begin at multiples of 256 bytes.
struct BlockLayout {
  uint32_t numbers;     // of heads x queries
  uint32_t tokens;      // of queries
  uint32_t query_rows;  // one matrix of them; there are two, and two of keys
  uint32_t key_rows;
  uint32_t tiles;  // gradients of the scores

  __host__ __device__ BlockLayout(uint32_t heads, uint32_t query_tiles, uint32_t key_tiles,
                                  uint32_t width)
      : numbers(heads * query_tiles * 128),
        tokens(((heads + 1) * query_tiles * 128 + 255) / 256 * 256 - numbers),
        query_rows(heads * query_tiles * 32 * width),
        key_rows(heads * key_tiles * 32 * width),
        tiles(heads * query_tiles * key_tiles * 512) {}
  __host__ __device__ uint32_t without_tiles() const {
    return numbers + tokens + 2 * query_rows + 2 * key_rows;
  }
  __host__ __device__ uint32_t all() const { return without_tiles() + tiles; }
};

}  // namespace reigen::cuda
