// ops/embed.h on CUDA. The contract's host spans become device arrays that travel with the batch.
//
// The gradient adds rows of the same piece in the order of their tokens: the host sorts tokens by
// piece (it does so beside the step, while the batch is packed) and cuts the runs into segments of
// at most 32, so that a comma that makes up 5% of a batch does not leave one warp working alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/cuda/context.h"
#include "ops/dropout.h"
#include "tensor/tensor.h"

namespace reigen::cuda {

constexpr uint32_t kNoToken = 0xFFFFFFFFu;  // an id or target that only fills up a token count

struct EmbedTokens {
  const uint32_t* ids = nullptr;     // device; kNoToken gives a row of zeros
  const uint32_t* places = nullptr;  // device; the place of each token in its sentence
  float scale = 1;
  Dropout dropout;
};

// The table is the compute copy; out is of its type or fp32; positions are fp32.
void embed_forward(const Context& context, const EmbedTokens& input, Tensor table, Tensor positions,
                   Tensor out);

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

// Of a side of a batch: by piece, and by place for learned positions.
struct EmbedPlans {
  EmbedPlan by_id;
  EmbedPlan by_place;
};

// dtable[key] += scale * dropped dout, in fp32. Call it again with a plan of places and scale 1 for
// learned positions.
void embed_backward(const Context& context, const EmbedPlan& plan, Tensor dout, float scale,
                    const Dropout& dropout, Tensor dtable);

}  // namespace reigen::cuda
