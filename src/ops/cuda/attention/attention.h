// ops/attention.h on CUDA, for head widths that are multiples of 8 up to 256. Heads of 32, 64 and
// 128 in bf16 or fp16 use tensor cores (Turing: fp16 only; Pascal and Volta: none).
//
// The host divides the work into blocks once per batch and pair of sides; all layers share the
// division, which is copied to the GPU with the batch. The kernels do not read the op's own
// offsets. Tokens past the last sentence (a token count rounded up) get zeros, so that later
// products of them are finite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

// One block's share: some heads of one sentence, or a run of tiles of one head of a long one.
struct AttentionWork {
  uint32_t first_query;
  uint32_t first_key;
  uint32_t queries;
  uint32_t keys;
  uint32_t head;  // the first
  uint32_t first_item;
  uint32_t last_item;  // one past; in backward 0 for all of these heads
  uint32_t heads;
};

struct AttentionSchedule {
  std::vector<AttentionWork> forward;
  std::vector<AttentionWork> backward;
  bool tiles = false;         // for tensor cores
  uint32_t shared_bytes = 0;  // the most a backward block needs
  uint32_t query_tokens = 0;
  uint32_t key_tokens = 0;
};
AttentionSchedule schedule_attention(std::span<const uint32_t> query_offsets,
                                     std::span<const uint32_t> key_offsets, int heads,
                                     int64_t head_width, DType dtype);

// A schedule whose lists have been copied to the device.
struct AttentionPlan : OpPlan {
  const AttentionWork* forward = nullptr;
  const AttentionWork* backward = nullptr;
  uint32_t forward_blocks = 0;
  uint32_t backward_blocks = 0;
  bool tiles = false;
  uint32_t shared_bytes = 0;
  uint32_t query_tokens = 0;
  uint32_t clear_queries_from = 0;  // rows from here on are zeros unless a sentence is in them
  uint32_t clear_keys_from = 0;
};
// The numbers of a schedule, with its lists at these device addresses.
AttentionPlan plan_of(const AttentionSchedule& schedule, const AttentionWork* forward,
                      const AttentionWork* backward);

}  // namespace reigen::cuda
