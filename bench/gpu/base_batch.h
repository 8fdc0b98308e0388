// The batch of a base step: sentences with lengths as text has them, and everything about them that
// operations want on the device.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base_step.h"
#include "gpu_buffers.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/embed.h"

namespace reigen::bench {

struct Lengths {
  std::vector<uint32_t> source = {0};  // offsets
  std::vector<uint32_t> target = {0};
};
Lengths make_lengths(const StepOptions& o);

// One side of the batch on the device.
struct Side {
  int64_t rows = 0;  // rounded up
  std::vector<uint32_t> offsets;
  GpuArray<uint32_t> ids;
  GpuArray<uint32_t> places;
  GpuArray<uint64_t> tokens;
  GpuArray<uint32_t> order;
  GpuArray<cuda::EmbedSegment> segments;
  GpuArray<cuda::EmbedSum> sums;
  cuda::EmbedPlan embed;
};
Side make_side(std::mt19937_64& random, const StepOptions& o, std::vector<uint32_t> offsets);

struct AttentionLists {
  GpuArray<cuda::AttentionWork> forward;
  GpuArray<cuda::AttentionWork> backward;
  cuda::AttentionPlan plan;
  AttentionLists(const Side& queries, const Side& keys, int heads, int64_t head_width, DType dtype);
};

// Zipf-like pieces, as text has them: the commonest one is about 6% of all. Past `count` there are
// none.
std::vector<uint32_t> make_ids(std::mt19937_64& random, size_t count, int64_t pieces, int64_t rows);

}  // namespace reigen::bench
