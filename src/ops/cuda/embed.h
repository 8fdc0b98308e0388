// The schedule of the embedding's gradient on CUDA (embed.cu).
//
// Rows of the same piece are added in the order of their tokens: the host sorts tokens by piece
// while the previous step runs, and cuts the runs into segments of at most 32, so that a frequent
// piece such as the comma (5% of a batch) is not left to a single warp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/batch_index.h"

namespace reigen::cuda {

constexpr uint32_t kNoToken = 0xFFFFFFFFu;  // an id or target that only pads a token count

struct EmbedSegment {
  uint32_t first;  // in the order
  uint32_t last;   // one past
  uint32_t row;    // of the table
  uint32_t slot;   // of partial sums, or kNoToken to add to the table at once
};
struct EmbedSum {
  uint32_t row;
  uint32_t first_slot;
  uint32_t slots;
};
struct EmbedSchedule {
  std::vector<uint32_t> order;  // tokens by (key, number)
  std::vector<EmbedSegment> segments;
  std::vector<EmbedSum> sums;
  uint32_t slots = 0;
};
EmbedSchedule schedule_embed_backward(std::span<const uint32_t> keys);  // ids, or places

// A schedule copied to the device.
struct EmbedPlan {
  const uint32_t* order = nullptr;
  const EmbedSegment* segments = nullptr;
  const EmbedSum* sums = nullptr;
  uint32_t segment_count = 0;
  uint32_t sum_count = 0;
  uint32_t slots = 0;
};

// For one side of a batch: by piece, and by place for learned positions.
struct EmbedPlans : OpPlan {
  EmbedPlan by_id;
  EmbedPlan by_place;
};

}  // namespace reigen::cuda
